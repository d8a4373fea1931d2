"""Batches that share their forwards, with per-sequence KV caches, and the HTTP endpoint."""
