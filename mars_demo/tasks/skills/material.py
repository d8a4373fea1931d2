"""The material of a request, in a line of text or as lines with bullets, and values in JSON."""

import json
import random
import re
from collections.abc import Sequence

from mars_demo.tasks.skills.common import marked

BULLETS = ("{}", "{}", "- {}", "* {}", "• {}", "{n}. {}", "{n}) {}")
NUMBER = re.compile(r"(0|[1-9]\d*)(\.\d+)?")


def written(rng: random.Random, items: Sequence[str], inline: bool, separators: Sequence[str]) -> str:
    """Return items in one line, or, unless `inline`, mostly as lines with or without bullets."""
    if inline or rng.random() < 0.25:
        return rng.choice(separators).join(items)
    return marked(rng.choice(BULLETS), items)


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
