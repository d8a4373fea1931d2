"""Training of MARS models: data, objective, optimizer and transformers' Trainer around them."""
