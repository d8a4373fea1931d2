"""The lessons: chapters are data in `assets/lessons`, the kinds of their figures are code here."""

from mars_demo.core.assets import read_json

CHAPTERS = [read_json("lessons", f"{name}.json") for name in read_json("lessons", "order.json")]


def number_of(name: str | None) -> int:
    """Return the index of the chapter with this id or number, by default the first one."""
    ids = [chapter["id"] for chapter in CHAPTERS]
    if name in ids:
        return ids.index(name)
    number = int(name) if name and name.isdecimal() and len(name) < 4 else 1
    return min(max(number, 1), len(CHAPTERS)) - 1
