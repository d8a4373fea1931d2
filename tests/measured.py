"""Rows as benchmarks write them."""


def row(seed: int, task: str, accuracy: float, tokens: int = 100, forwards: int = 50, **origin) -> dict:
    measured = {"tau": 0.95, "n": 20, "accuracy": accuracy, "tokens_per_forward": tokens / forwards}
    spent = {"tokens": tokens, "forwards": forwards, "seconds": 1.0}
    return {"seed": seed, "task": task} | measured | spent | origin
