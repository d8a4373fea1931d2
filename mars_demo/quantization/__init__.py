"""Quantization: a writer of 8-bit GGUF files."""
