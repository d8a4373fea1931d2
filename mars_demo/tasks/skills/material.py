"""Values in the material of a request, and its forms: in a line of text, or as lines with bullets."""

import json
import random
import re
from collections.abc import Callable, Sequence

from mars_demo.tasks.skills import words

BULLETS = ("", "", "- ", "* ", "• ", "{}. ", "{}) ")
NUMBER = re.compile(r"(0|[1-9]\d*)(\.\d+)?")


def number(low: int, high: int, step: int = 1) -> Callable[[random.Random], str]:
    """Return a function that draws a number in a range."""
    return lambda rng: str(rng.randrange(low, high + 1, step))


def day(rng: random.Random) -> str:
    """Return a date in one of several styles."""
    date = words.date(rng)
    month = words.MONTHS[date.month - 1]
    return rng.choice(
        (
            words.long_date(date),
            date.isoformat(),
            f"{date.day} {month} {date.year}",
            f"{date.day} {month}",
            f"{date.day:02}/{date.month:02}/{date.year}",
            f"{date.day}.{date.month}.{date.year}",
        )
    )


def money(rng: random.Random) -> str:
    return rng.choice(("", "", "", "$", "€", "£")) + words.price(rng)


def is_inline(phrasing: str) -> bool:
    """Return whether a phrasing has its material inside a line, where only one line fits."""
    return re.search(r"[^\n]\{material\}|\{material\}[^\n]", phrasing) is not None


def written(rng: random.Random, items: Sequence[str], inline: bool, separators: Sequence[str]) -> str:
    """Return items in one line, or, unless `inline`, mostly as lines with or without bullets."""
    if inline or rng.random() < 0.25:
        return rng.choice(separators).join(items)
    bullet = rng.choice(BULLETS)
    return "\n".join(bullet.format(number) + item for number, item in enumerate(items, 1))


def literal(value: str) -> str:
    """Return a value as JSON: digits as a number with the same digits, all else as a string."""
    return value if NUMBER.fullmatch(value) else json.dumps(value, ensure_ascii=False)


def flat(text: str) -> dict | list:
    """Return JSON with its numbers as strings of the same digits.

    Raises:
        ValueError: if it is not JSON.
        RecursionError: if it is nested too deeply.
    """
    return json.loads(text, parse_float=str, parse_int=str)
