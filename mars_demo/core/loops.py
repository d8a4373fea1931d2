"""Texts that repeat themselves."""

import re

_LOOP = re.compile(r"(.{24,}?)\1\1", re.DOTALL)


def is_loop(text: str) -> bool:
    """Return whether a passage of the text repeats three times in a row."""
    return _LOOP.search(text) is not None
