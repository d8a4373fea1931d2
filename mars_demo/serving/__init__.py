"""Batched decoding: per-sequence KV caches, batches, a server and its HTTP endpoint."""
