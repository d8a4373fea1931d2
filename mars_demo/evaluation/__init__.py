"""Evaluation: accuracy, sweeps, recordings, and the paper's tables beside ours."""
