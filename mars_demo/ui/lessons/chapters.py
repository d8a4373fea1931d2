"""The chapters of the Learn tab, in their order."""

import json

from mars_demo.assets import ASSETS

FILES = sorted((ASSETS / "lessons").glob("*.json"), key=lambda path: int(path.name.split("-")[0]))
CHAPTERS = [json.loads(path.read_text("utf-8")) for path in FILES]


def number_of(asked: str | None) -> int:
    """The chapter that an address names, by its id or its number; the first one if it names none."""
    ids = [chapter["id"] for chapter in CHAPTERS]
    if asked in ids:
        return ids.index(asked)
    number = int(asked) if asked and asked.isdecimal() and len(asked) < 4 else 1
    return min(max(number, 1), len(CHAPTERS)) - 1
