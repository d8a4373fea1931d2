"""Many prompts at once: caches with a length per row, batches, and a server."""
