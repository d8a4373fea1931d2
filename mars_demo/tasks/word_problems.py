"""Word problems with two or three arithmetic steps, worked out one at a time."""

import operator
import random
import re

from mars_demo.tasks.common import NAMES, PEOPLE, TEXTS, Example, Task, ask, quantity

_TEXTS = TEXTS["word-problems"]
THINGS = _TEXTS["things"].split()
WORDS = {name: _TEXTS[name] for name in ("gains", "losses", "treats", "rides")}
WORDS["holders"] = _TEXTS["holders"].split()
SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
# Each with its values in the order in which they are drawn or computed, and its texts.
TALES = _TEXTS["tales"]


def make(rng: random.Random) -> Example:
    who, he = rng.choice(PEOPLE)
    tale = TALES[rng.choice(list(TALES))]
    thing = rng.choice(THINGS)
    values = _values(rng, tale["values"], WORDS | {"others": [name for name in NAMES if name != who]})
    result = values["result"]
    blanks = {"who": who, "he": he, "thing": thing, "amount": quantity(result, thing)} | values
    prompt = ask(rng, tale["asks"], **blanks)
    answer = f"{tale['steps']} {tale['conclusion']}".format(**blanks)
    return Example("word-problems", prompt, answer, {"number": result})


def _values(rng: random.Random, rules: dict, words: dict) -> dict:
    """Return the values of a tale: numbers in ranges, words of lists, and results of calculations."""
    values: dict = {}
    for name, rule in rules.items():
        if isinstance(rule, list):
            low, *highs = rule
            values[name] = rng.randint(low, min(_result(high, values) for high in highs))
        elif rule == "shared gain":
            # Less than the total; 4 can only be 2 and 2.
            values[name] = rng.randint(2, min(9, values["total"] - 2)) if values["total"] > 4 else 2
        else:
            values[name] = rng.choice(words[rule]) if rule in words else _result(rule, values)
    return values


def _result(formula: str | int, values: dict) -> int:
    """Return the result of "a + b" or "a", in which a and b are numbers or names of values."""
    first, *rest = str(formula).split()
    number = values[first] if first in values else int(first)
    return SIGNS[rest[0]](number, _result(rest[1], values)) if rest else number


def grade(example: Example, answer: str) -> bool:
    numbers = re.findall(r"-?\d+", answer)
    is_sentence = answer.rstrip().endswith(".")
    return is_sentence and bool(numbers) and numbers[-1] == str(example.facts["number"])


TASK = Task("word-problems", "Word problems", make, grade, 1.5)
