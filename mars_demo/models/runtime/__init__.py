"""The runtimes of a forward: dense, quantized and captured models."""
