"""Totals of shopping lists, added up line by line."""

import random

from mars_demo.tasks.common import Example, concludes
from mars_demo.tasks.skills.common import kinds, request, skill
from mars_demo.tasks.skills.words import GROUPS

ASKS, LINES = kinds("receipts"), kinds("receipts", "lines")


def make(rng: random.Random, unseen: bool) -> Example:
    items = rng.sample((GROUPS["groceries"] + " " + GROUPS["tools"]).split(), rng.randint(2, 5))
    line, total, given, steps = LINES.pick(rng, unseen), 0, [], []
    for item in items:
        n, price = rng.randint(1, 9), rng.randint(2, 20)
        given.append(line.format(n=n, item=item, price=price))
        before, total = total, total + n * price
        added = f" {before} + {n * price} = {total}." if before else ""
        steps.append(f"{item}: {n} x {price} = {n * price}.{added}")
    prompt = request(rng, ASKS.pick(rng, unseen), "\n".join(given))
    conclusion = f"The total is {total}."
    return Example("receipts", prompt, "\n".join([*steps, conclusion]), {"conclusion": conclusion})


TASK = skill("receipts", "Totals of receipts", make, concludes)
