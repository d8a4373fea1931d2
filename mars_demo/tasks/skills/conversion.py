"""Amounts in another unit, with the multiplication step by step."""

import random

from mars_demo.tasks.common import Example, concludes, concluding
from mars_demo.tasks.skills.common import kinds, request, skill, texts

ASKS = kinds("conversion")
# For each unit: its singular and plural, a verb, the smaller unit, and possible factors.
UNITS = kinds("conversion", "units")
COMMON = texts("conversion")["common"]  # units whose factor may be left out of a request


def make(rng: random.Random, unseen: bool) -> Example:
    phrasing = ASKS.pick(rng, unseen)
    is_common = "{factor}" not in phrasing or rng.random() < 0.2
    one, many, verb, small, factors = rng.choice(COMMON) if is_common else UNITS.pick(rng, unseen)
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
