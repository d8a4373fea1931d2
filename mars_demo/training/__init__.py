"""Objectives, training text, the training loop, and trainings that are watched."""
