"""MARS Demo: multi-token decoding of causal language models, recorded pass by pass."""

__version__ = "0.1.0"
