"""EleutherAI's lm-evaluation-harness with this project's models and tasks, and the paper's suite.

The harness is an optional dependency (`requirements-eval.txt`). Only this package imports it.
"""
