"""Bad input of every kind against a running app: see `python -m benchmarks.hostile --help`."""
