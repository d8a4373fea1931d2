"""MARS Demo: multi-token decoding of causal language models, recorded pass by pass."""
