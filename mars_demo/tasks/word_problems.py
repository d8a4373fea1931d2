"""Word problems with two or three arithmetic steps, worked out one at a time."""

import random
import re
from collections.abc import Callable
from types import SimpleNamespace

from mars_demo.tasks.common import NAMES, PEOPLE, TEXTS, Example, Task, ask, quantity

_TEXTS = TEXTS["word-problems"]
THINGS, HOLDERS = _TEXTS["things"].split(), _TEXTS["holders"].split()
GAINS, LOSSES = _TEXTS["gains"], _TEXTS["losses"]


def _drawn(rng: random.Random, **choices: tuple[int, int] | list[str]) -> SimpleNamespace:
    """Draw a number from each range and an entry from each list, in the given order."""
    return SimpleNamespace(
        **{
            name: rng.randint(*choice) if isinstance(choice, tuple) else rng.choice(choice)
            for name, choice in choices.items()
        }
    )


def _gain_then_lose(rng: random.Random, who: str) -> SimpleNamespace:
    v = _drawn(rng, start=(10, 80), more=(2, 9), less=(2, 9), gains=GAINS, loses=LOSSES)
    v.middle = v.start + v.more
    v.result = v.middle - v.less
    return v


def _lose_then_gain(rng: random.Random, who: str) -> SimpleNamespace:
    v = _drawn(rng, start=(12, 80), less=(2, 9), more=(2, 9), gains=GAINS, loses=LOSSES)
    v.middle = v.start - v.less
    v.result = v.middle + v.more
    return v


def _two_gains_and_a_loss(rng: random.Random, who: str) -> SimpleNamespace:
    v = _drawn(rng, start=(10, 70), first=(2, 9), second=(2, 9), less=(2, 9), gains=GAINS, loses=LOSSES)
    v.one = v.start + v.first
    v.two = v.one + v.second
    v.result = v.two - v.less
    return v


def _full_holders_and_some(rng: random.Random, who: str) -> SimpleNamespace:
    v = _drawn(rng, holders=(2, 9), each=(2, 9), loose=(2, 9), holder=HOLDERS)
    v.product = v.holders * v.each
    v.result = v.product + v.loose
    return v


def _full_holders_less_some(rng: random.Random, who: str) -> SimpleNamespace:
    v = _drawn(rng, holders=(2, 9), each=(2, 9), holder=HOLDERS, loses=LOSSES)
    v.product = v.holders * v.each
    v.less = rng.randint(2, min(9, v.product - 1))
    v.result = v.product - v.less
    return v


def _gain_then_share(rng: random.Random, who: str) -> SimpleNamespace:
    v = _drawn(rng, friends=(2, 9), each=(2, 9))
    v.total = v.friends * v.each
    v.more = rng.randint(2, min(9, v.total - 2)) if v.total > 4 else 2
    v.start, v.gains = v.total - v.more, rng.choice(GAINS)
    v.result = v.each
    return v


def _share_then_lose(rng: random.Random, who: str) -> SimpleNamespace:
    v = _drawn(rng, children=(2, 9), each=(3, 9))
    v.total, v.less, v.loses = v.children * v.each, rng.randint(2, v.each - 1), rng.choice(LOSSES)
    v.result = v.each - v.less
    return v


def _two_people(rng: random.Random, who: str) -> SimpleNamespace:
    v = _drawn(rng, other=[name for name in NAMES if name != who], start=(2, 9), more=(2, 9))
    v.theirs = v.start + v.more
    v.result = v.start + v.theirs
    return v


def _shopping(rng: random.Random, who: str) -> SimpleNamespace:
    treats = ["book", "hat", "toy", "cake", "map"]
    v = _drawn(rng, count=(2, 9), price=(2, 9), extra=(2, 9), treat=treats)
    v.product = v.count * v.price
    v.result = v.product + v.extra
    return v


def _bus(rng: random.Random, who: str) -> SimpleNamespace:
    rides = ["bus", "train", "tram", "boat"]
    v = _drawn(rng, start=(10, 40), first_on=(2, 9), off=(2, 9), then_on=(2, 9), ride=rides)
    v.one = v.start + v.first_on
    v.two = v.one - v.off
    v.result = v.two + v.then_on
    return v


# The numbers and words of each problem, by the name of its texts; the order affects what a seed draws.
TALES: dict[str, Callable[[random.Random, str], SimpleNamespace]] = {
    "gain then lose": _gain_then_lose,
    "lose then gain": _lose_then_gain,
    "two gains and a loss": _two_gains_and_a_loss,
    "full holders and some": _full_holders_and_some,
    "full holders less some": _full_holders_less_some,
    "gain then share": _gain_then_share,
    "share then lose": _share_then_lose,
    "two people": _two_people,
    "shopping": _shopping,
    "bus": _bus,
}


def make(rng: random.Random) -> Example:
    who, he = rng.choice(PEOPLE)
    tale = rng.choice(list(TALES))
    thing = rng.choice(THINGS)
    values, texts = TALES[tale](rng, who), _TEXTS["tales"][tale]
    blanks = {"who": who, "he": he, "thing": thing, "amount": quantity(values.result, thing)} | vars(values)
    prompt = ask(rng, texts["asks"], **blanks)
    answer = f"{texts['steps']} {texts['conclusion']}".format(**blanks)
    return Example("word-problems", prompt, answer, {"number": values.result})


def grade(example: Example, answer: str) -> bool:
    numbers = re.findall(r"-?\d+", answer)
    is_sentence = answer.rstrip().endswith(".")
    return is_sentence and bool(numbers) and numbers[-1] == str(example.facts["number"])


TASK = Task("word-problems", "Word problems", make, grade, 1.5)
