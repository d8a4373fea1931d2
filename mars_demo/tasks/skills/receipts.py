"""Totals of shopping lists, added up line by line."""

import random
import re

from mars_demo.tasks.common import Example, concludes
from mars_demo.tasks.skills.common import and_list, request, skill, texts
from mars_demo.tasks.skills.sums import steps_of

TEXT = texts("receipts")


def make(rng: random.Random, unseen: bool) -> Example:
    bullet, line = rng.choice(TEXT.bullets), TEXT.lines.pick(rng, unseen)
    currency = rng.choice(TEXT.currencies)
    total, given, bought, steps = 0, [], [], []
    for one, many in rng.sample(TEXT.goods, rng.randint(2, 3)):
        n, price = rng.randint(1, 6), rng.randint(2, 12)
        items = one if n == 1 else many
        given.append(bullet + line.format(n=n, item=one, items=items, price=currency.format(price)))
        bought.append((one, many, n, price))
        steps.append(f"{items if '{items}' in line else one}: {n} x {price} = {n * price}.")
        if total:
            steps.append(steps_of("+", [total, n * price])[0])
        total += n * price
    in_a_row = not bullet and not set(line) & set(",;|=\t") and rng.random() < 0.3
    prompt = request(rng, TEXT.asks.pick(rng, unseen), and_list(given) if in_a_row else "\n".join(given))
    conclusion = f"The total is {total}."
    facts = {"bought": bought, "conclusion": conclusion}
    return Example("receipts", prompt, "\n".join([*steps, conclusion]), facts)


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer names each item, has its cost and ends with the total."""
    answer = answer
    text = answer.lower()
    equations = set(re.findall(r"(\d+) [x×*] (\d+) = (\d+)", answer))
    return concludes(example, answer) and all(
        (one.lower() in text or many.lower() in text)
        and {(str(n), str(price), str(n * price)), (str(price), str(n), str(n * price))} & equations
        for one, many, n, price in example.facts["bought"]
    )


TASK = skill("receipts", "Totals of receipts", make, grade)
