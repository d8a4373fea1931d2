"""Unit conversion from a larger to a smaller unit."""

import random

from mars_demo.tasks.common import TEXTS, Example, Task, ask, concludes, concluding

UNITS = TEXTS["units"]["units"]  # singular, plural, the smaller unit, and the factor
ASKS = TEXTS["units"]["asks"]


def make(rng: random.Random) -> Example:
    one, large, small, factor = rng.choice(UNITS)
    n = rng.randint(2, 20 if factor in (10, 100, 1000) else 12)
    prompt = ask(rng, ASKS, n=n, large=large, small=small)
    product = f"{n * factor:,}"
    steps = (
        f"1 {one} is {factor:,} {small}. {n} {large} is {_product_shown(n, factor)} = {product} {small}."
    )
    return concluding("units", prompt, steps, f"So {n} {large} is {product} {small}.")


def _product_shown(n: int, factor: int) -> str:
    shown = f"{n} x {factor:,}"
    if n <= 10 or factor in (10, 100, 1000):
        return shown
    ones = n - 10
    return f"{shown} = 10 x {factor} + {ones} x {factor} = {10 * factor} + {ones * factor}"


TASK = Task("units", "Unit conversion", make, concludes)
