"""Weights in fewer bits: GPTQ, and packing as GGUF."""
