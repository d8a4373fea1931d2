"""Training: objectives, data, the training loop, and live and recorded trainings."""
