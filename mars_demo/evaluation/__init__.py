"""Evaluation: accuracy, sweeps, load tests, and the paper's tables beside ours."""
