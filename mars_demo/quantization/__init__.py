"""A writer of weights in 8 bits."""
