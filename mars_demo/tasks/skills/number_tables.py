"""Times tables, multiples, and the odd or even numbers in a range, asked for in many ways.

The answers have the form of the task `tables` of mars-tiny.
"""

import random

from mars_demo.tasks.common import Example, concludes, concluding, in_words, listed
from mars_demo.tasks.skills.common import kinds, request, skill

TABLE, MULTIPLES, PARITY = (
    kinds("number-tables", f"asks_{which}") for which in ("table", "multiples", "parity")
)


def make(rng: random.Random, unseen: bool) -> Example:
    return rng.choice((_times_table, _multiples, _parity))(rng, unseen)


def _times_table(rng: random.Random, unseen: bool) -> Example:
    n, rows = rng.randint(2, 12), rng.randint(4, 10)
    prompt = request(rng, TABLE.pick(rng, unseen), n=n, word=in_words(n), rows=rows)
    lines = "\n".join(f"{n} x {row} = {n * row}" for row in range(1, rows + 1))
    return concluding("number-tables", prompt, "", f"Here is the {n} times table up to {rows}:\n{lines}")


def _multiples(rng: random.Random, unseen: bool) -> Example:
    n, steps = rng.randint(2, 12), rng.randint(4, 10)
    details = {"n": n, "word": in_words(n), "double": 2 * n, "triple": 3 * n, "last": n * steps}
    prompt = request(rng, MULTIPLES.pick(rng, unseen), **details)
    counted = listed(range(n, n * steps + 1, n))
    return concluding("number-tables", prompt, "", f"Counting by {n} up to {n * steps}: {counted}.")


def _parity(rng: random.Random, unseen: bool) -> Example:
    low, odd = rng.randint(1, 80), rng.randrange(2)
    high = low + rng.randint(6, 19)
    kind, other = ("odd", "even") if odd else ("even", "odd")
    prompt = request(rng, PARITY.pick(rng, unseen), kind=kind, other=other, low=low, high=high)
    numbers = [number for number in range(low, high + 1) if number % 2 == odd]
    steps = f"The first one is {numbers[0]} and the last one is {numbers[-1]}."
    conclusion = f"The {kind} numbers from {low} to {high} are {listed(numbers)}."
    return concluding("number-tables", prompt, steps, conclusion)


TASK = skill("number-tables", "Number tables", make, concludes)
