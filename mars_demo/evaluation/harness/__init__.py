"""EleutherAI's lm-evaluation-harness with this project's models.

The harness is an optional dependency (`requirements-eval.txt`). Only this package imports it.
"""
