"""Phone numbers in another format, with their digits as a step."""

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills.common import LONGEST, kinds, lines_of, request, skill

FORMS, ASKS = kinds("phones", "forms"), kinds("phones")


def make(rng: random.Random, unseen: bool) -> Example:
    form = FORMS.pick(rng, unseen)
    numbers = [
        "".join(rng.choices("23456789", k=1) + rng.choices("0123456789", k=9))
        for _ in range(rng.randint(1, 3))
    ]
    given = "\n".join(
        filled(rng.choice([f for f in FORMS.seen if f != form]), number) for number in numbers
    )
    prompt = request(rng, ASKS.pick(rng, unseen), given, form=form)
    results = [filled(form, number) for number in numbers]
    answer = "\n".join(f"{' '.join(number)} -> {result}" for number, result in zip(numbers, results))
    return Example("phones", prompt, answer, {"numbers": results})


def filled(form: str, digits: str) -> str:
    """Return a format with its X replaced by the digits in order."""
    rest = iter(digits)
    return "".join(next(rest) if sign == "X" else sign for sign in form)


def grade(example: Example, answer: str) -> bool:
    """Return whether each line of the answer ends with its number, after an arrow or alone."""
    values = [line.rpartition("->")[2].strip() for line in lines_of(answer[:LONGEST])]
    return values == example.facts["numbers"]


TASK = skill("phones", "Phone numbers in another form", make, grade)
