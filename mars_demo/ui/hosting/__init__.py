"""Hosting for many visitors: lent GPUs, error handling, sessions and visitors' models."""
