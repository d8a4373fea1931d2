"""Hosting for many visitors: lent GPUs, error handling, storage, sessions and visitors' models."""
