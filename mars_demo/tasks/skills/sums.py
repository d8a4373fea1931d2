"""Sums, differences and products of small numbers, and amounts in another unit, worked out in steps."""

import random
import re

from mars_demo.core.assets import read_json
from mars_demo.tasks.common import Example, concludes, concluding, same
from mars_demo.tasks.skills.common import request, skill, texts
from mars_demo.tasks.skills.words import FIRST_NAMES

# `units` have a singular and a plural, a verb, the smaller unit, and possible factors; a request may leave
# out the factor of `common` ones.
SUMS, CONVERSION = texts("sums"), texts("conversion")
# The phrasings of each kind of calculation, with its sign.
ASKS = ((SUMS.asks_two, "+"), (SUMS.asks_three, "+"), (SUMS.asks_difference, "-"), (SUMS.asks_product, "x"))
# The numbers of verifiable instructions, which are never trained on.
CHECKED = [{*map(int, re.findall(r"\d+", check["prompt"]))} for check in read_json("checks.json")]


def _sum(rng: random.Random, unseen: bool) -> Example:
    asks, sign = rng.choice(ASKS)
    phrasing = asks.pick(rng, unseen)
    numbers = _numbers(rng, sign, 3 if "{c}" in phrasing else 2)
    a, b, *_ = numbers
    prompt = request(
        rng,
        phrasing,
        **dict(zip("abc", numbers)),
        sum=rng.choice(SUMS.expressions[sign]).format(a=a, b=b),
        end=rng.choice(SUMS.ends),
        things=rng.choice(SUMS.things.split()),
        who=rng.choice(FIRST_NAMES),
    )
    return _example(prompt, sign, numbers)


def _numbers(rng: random.Random, sign: str, count: int) -> list[int]:
    """Draw numbers of at most 20, other than those of verifiable instructions."""
    while True:
        if sign == "x":
            numbers = [rng.randint(2, 9), rng.randint(2, 10)]
        else:
            numbers = [rng.randint(2, 20 if count == 2 else 10) for _ in range(count)]
        if sign == "-":
            numbers.sort(reverse=True)
        if {*numbers} not in CHECKED and (sign != "-" or numbers[0] > numbers[1]):
            return numbers


def _example(prompt: str, sign: str, numbers: list[int]) -> Example:
    steps, result = steps_of(sign, numbers)
    equation = f"{f' {sign} '.join(map(str, numbers))} = {result}."
    answer = equation if steps == equation else f"{steps} So {equation}"
    return Example("sums", prompt, answer, {"result": result})


def steps_of(sign: str, numbers: list[int]) -> tuple[str, int]:
    """Return a calculation from left to right, step by step, and its result."""
    result, *others = numbers
    steps = []
    for number in others:
        step, result = STEPS[sign](result, number)
        steps.append(step)
    return " ".join(steps), result


def _added(a: int, b: int) -> tuple[str, int]:
    """Add tens, ones, and then both, where that is easier."""
    if min(a, b) < 10 or not a % 10 or not b % 10:
        return f"{a} + {b} = {a + b}.", a + b
    tens, ones = a // 10 * 10 + b // 10 * 10, a % 10 + b % 10
    parts = f"{a - a % 10} + {b - b % 10} = {tens}. {a % 10} + {b % 10} = {ones}."
    return f"{parts} {tens} + {ones} = {a + b}.", a + b


def _subtracted(a: int, b: int) -> tuple[str, int]:
    """Subtract first the tens and then the ones."""
    tens, ones = b // 10 * 10, b % 10
    if not tens or not ones:
        return f"{a} - {b} = {a - b}.", a - b
    return f"{a} - {tens} = {a - tens}. {a - tens} - {ones} = {a - b}.", a - b


def _multiplied(a: int, b: int) -> tuple[str, int]:
    """Multiply tens, ones, and then add both."""
    tens, ones = a // 10 * 10, a % 10
    if not tens or not ones:
        return f"{a} x {b} = {a * b}.", a * b
    parts = f"{tens} x {b} = {tens * b}. {ones} x {b} = {ones * b}."
    return f"{parts} {tens * b} + {ones * b} = {a * b}.", a * b


STEPS = {"+": _added, "-": _subtracted, "x": _multiplied}


def _equation(answer: str) -> tuple[str, set[str], list[str]]:
    """Return the result, the signs and the numbers of the last equation; the order of a sum is free."""
    last = re.split(r"\.\s|\n", answer.strip().removesuffix("."))[-1].strip()
    left, _, right = last.removeprefix("So ").partition(" = ")
    numbers, signs = left.split()[::2], {*left.split()[1::2]}
    return right, signs, numbers if signs == {"-"} else sorted(numbers)


def _further(rng: random.Random, example: Example, unseen: bool) -> Example | None:
    """Return a request to add to the result of an example, or to subtract from it."""
    sign, phrasing = SUMS.follow_ups.pick(rng, unseen)
    result, n = example.facts["result"], rng.randint(2, 20)
    if {result, n} in CHECKED or (sign == "-" and n >= result):
        return None
    return _example(request(rng, phrasing, n=n), sign, [result, n])


def _conversion(rng: random.Random, unseen: bool) -> Example:
    phrasing = CONVERSION.asks.pick(rng, unseen)
    is_common = "{factor}" not in phrasing or rng.random() < 0.2
    unit = rng.choice(CONVERSION.common) if is_common else CONVERSION.units.pick(rng, unseen)
    one, many, verb, small, factors = unit
    n, factor = rng.randint(2, 20), rng.choice(factors)
    prompt = request(rng, phrasing, one=one, many=many, verb=verb, small=small, n=n, factor=factor)
    steps, amount = steps_of("x", [n, factor])
    return concluding("conversion", prompt, steps, f"So {n} {many} are {amount} {small}.")


CALCULATIONS = skill("sums", "Sums in steps", _sum, same(_equation), _further)
CONVERSIONS = skill("conversion", "Amounts in another unit", _conversion, concludes)
