"""Amounts in another unit, whose size the request gives, with the multiplication step by step."""

from __future__ import annotations

import random

from mars_demo.tasks.common import Example, ask, concludes, concluding
from mars_demo.tasks.skills.common import Kinds, skill

# For each unit: its singular and plural, the smaller unit, and how many of those make one.
UNITS = Kinds(
    seen=(
        ("crate", "crates", "bottles", (6, 12, 20, 24)),
        ("box", "boxes", "pencils", (8, 10, 12, 50)),
        ("hour", "hours", "minutes", (60,)),
        ("roll", "rolls", "meters", (15, 25, 30, 40)),
        ("pallet", "pallets", "bags", (32, 40, 48)),
        ("mile", "miles", "furlongs", (8,)),
        ("sack", "sacks", "kilograms", (20, 25, 40)),
        ("shift", "shifts", "hours", (6, 8, 12)),
        ("pack", "packs", "sheets", (80, 100, 250)),
        ("token", "tokens", "cents", (15, 25, 75)),
    ),
    unseen=(
        ("tray", "trays", "eggs", (18, 30, 36)),
        ("reel", "reels", "stickers", (45, 60, 90)),
        ("stone", "stones", "pounds", (14,)),
    ),
)
ASKS = Kinds(
    seen=(
        "One {one} is {factor} {small}. How many {small} are {n} {many}?",
        "Convert {n} {many} to {small}. One {one} is {factor} {small}.",
        "If a {one} is {factor} {small}, what are {n} {many} in {small}?",
        "How many {small} do I get from {n} {many} at {factor} {small} per {one}?",
        "{n} {many} in {small}? There are {factor} {small} in a {one}.",
    ),
    unseen=(
        "With {factor} {small} to the {one}, work out {n} {many} in {small}.",
        "I bought {n} {many}, each of {factor} {small}. Give me the number of {small}.",
    ),
)


def make(rng: random.Random, unseen: bool) -> Example:
    one, many, small, factors = UNITS.pick(rng, unseen)
    n, factor = rng.randint(3, 49), rng.choice(factors)
    prompt = ask(rng, ASKS.of(unseen), one=one, many=many, small=small, n=n, factor=factor)
    return concluding(
        "conversion", prompt, multiplied(n, factor), f"So {n} {many} are {n * factor} {small}."
    )


def multiplied(n: int, factor: int) -> str:
    """Return a product in steps: tens, ones, and their sum."""
    tens, ones = n // 10 * 10, n % 10
    if not tens or not ones:
        return f"{n} x {factor} = {n * factor}."
    return (
        f"{tens} x {factor} = {tens * factor}. {ones} x {factor} = {ones * factor}. "
        f"{tens * factor} + {ones * factor} = {n * factor}."
    )


TASK = skill("conversion", "Amounts in another unit", make, concludes)
