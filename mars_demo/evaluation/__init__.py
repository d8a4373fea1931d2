"""Evaluation: accuracy, sweeps, throughput, load tests, and the paper's tables beside ours."""
