"""How good and how fast: accuracy, fidelity, throughput, load, and the paper's tables beside ours."""
