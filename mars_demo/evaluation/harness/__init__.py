"""EleutherAI's lm-evaluation-harness: this project's models in it, its own tasks, and the paper's suite.

The harness is an optional dependency (`requirements-eval.txt`). It is imported here and nowhere else.
"""
