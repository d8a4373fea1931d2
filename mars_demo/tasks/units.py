"""Unit conversion: how many of the smaller unit a number of the larger one is."""

from __future__ import annotations

import random

from mars_demo.tasks.common import Example, Task, ask, concludes, concluding

# Singular, plural, the smaller unit, and how many of those make one.
UNITS = (
    ("kilometer", "kilometers", "meters", 1000),
    ("kilogram", "kilograms", "grams", 1000),
    ("liter", "liters", "milliliters", 1000),
    ("ton", "tons", "kilograms", 1000),
    ("meter", "meters", "centimeters", 100),
    ("dollar", "dollars", "cents", 100),
    ("century", "centuries", "years", 100),
    ("centimeter", "centimeters", "millimeters", 10),
    ("decade", "decades", "years", 10),
    ("hour", "hours", "minutes", 60),
    ("minute", "minutes", "seconds", 60),
    ("week", "weeks", "days", 7),
    ("foot", "feet", "inches", 12),
    ("year", "years", "months", 12),
    ("dozen", "dozen", "pieces", 12),
    ("day", "days", "hours", 24),
    ("pound", "pounds", "ounces", 16),
    ("yard", "yards", "feet", 3),
)

ASKS = (
    "How many {small} are in {n} {large}?",
    "How many {small} is {n} {large}?",
    "Convert {n} {large} to {small}.",
    "What is {n} {large} in {small}?",
    "Could you turn {n} {large} into {small} for me?",
    "I have {n} {large}. How many {small} is that?",
    "Please change {n} {large} to {small}.",
    "{n} {large} in {small}?",
)


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
