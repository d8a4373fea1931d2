"""Amounts in another unit, with the multiplication step by step."""

import random

from mars_demo.tasks.common import Example, concludes, concluding
from mars_demo.tasks.skills.common import request, skill, texts

TEXT = texts("conversion")


def make(rng: random.Random, unseen: bool) -> Example:
    phrasing = TEXT.asks.pick(rng, unseen)
    is_common = "{factor}" not in phrasing or rng.random() < 0.2
    one, many, verb, small, factors = rng.choice(TEXT.common) if is_common else TEXT.units.pick(rng, unseen)
    n, factor = rng.randint(2, 20), rng.choice(factors)
    prompt = request(rng, phrasing, one=one, many=many, verb=verb, small=small, n=n, factor=factor)
    return concluding(
        "conversion", prompt, multiplied(n, factor), f"So {n} {many} are {n * factor} {small}."
    )


def multiplied(n: int, factor: int) -> str:
    """Return a multiplication in steps: tens, ones, and their sum."""
    tens, ones = n // 10 * 10, n % 10
    if not tens or not ones:
        return f"{n} x {factor} = {n * factor}."
    return (
        f"{tens} x {factor} = {tens * factor}. {ones} x {factor} = {ones * factor}. "
        f"{tens * factor} + {ones * factor} = {n * factor}."
    )


TASK = skill("conversion", "Amounts in another unit", make, concludes)
