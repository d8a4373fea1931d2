"""The runtimes of a forward: transformers models and quantized models."""
