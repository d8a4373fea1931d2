"""Times tables, multiples, and the odd or even numbers in a range, asked for in many ways.

The answers have the form of the task `tables` of mars-tiny.
"""

import random

from mars_demo.tasks.common import Example, concludes, concluding, in_words
from mars_demo.tasks.numbers import multiples, parity, times_table
from mars_demo.tasks.skills.common import request, skill, texts

TEXT = texts("number-tables")


def make(rng: random.Random, unseen: bool) -> Example:
    return rng.choice((_times_table, _multiples, _parity))(rng, unseen)


def _times_table(rng: random.Random, unseen: bool) -> Example:
    n, rows = rng.randint(2, 12), rng.randint(4, 10)
    prompt = request(rng, TEXT.asks_table.pick(rng, unseen), n=n, word=in_words(n), rows=rows)
    return concluding("number-tables", prompt, "", times_table(n, rows))


def _multiples(rng: random.Random, unseen: bool) -> Example:
    n, steps = rng.randint(2, 12), rng.randint(4, 10)
    details = {"n": n, "word": in_words(n), "double": 2 * n, "triple": 3 * n, "last": n * steps}
    prompt = request(rng, TEXT.asks_multiples.pick(rng, unseen), **details)
    return concluding("number-tables", prompt, "", multiples(n, steps))


def _parity(rng: random.Random, unseen: bool) -> Example:
    low, (kind, other) = rng.randint(1, 80), rng.choice((("even", "odd"), ("odd", "even")))
    high = low + rng.randint(6, 19)
    prompt = request(rng, TEXT.asks_parity.pick(rng, unseen), kind=kind, other=other, low=low, high=high)
    return concluding("number-tables", prompt, *parity(kind, low, high))


TASK = skill("number-tables", "Number tables", make, concludes)
