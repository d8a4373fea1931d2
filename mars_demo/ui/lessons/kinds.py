"""The kinds of figures beside chapters.

A chapter names a kind. Its function takes the chapter's `element` and returns updates of `Parts`; all other
parts are hidden. To add a kind, add its components to `parts.py` and a function to this table.
"""

import json
from collections.abc import Callable

from mars_demo.ui.lessons import comparing, recorded, tables
from mars_demo.ui.lessons.parts import HIDDEN, shown


def worked_step(element: dict) -> dict[str, dict]:
    """Show windows with sliders for τ and the scores, which begin with the chapter's values."""
    value = {name: element[name] for name in ("tau", "scores")}
    return {"worked_step": shown(value=json.dumps(value))}


KINDS: dict[str, Callable[[dict], dict[str, dict]]] = {
    "stage": recorded.stage,
    "race": recorded.race,
    "grid": recorded.grid,
    "choice": recorded.choose,
    "worked-step": worked_step,
    "costs": tables.costs,
    "answers": comparing.answers,
    "table": tables.rows,
    "comparison": tables.comparison,
    "schedule": tables.schedule,
    "cache-block": tables.cache_block,
    "lens": recorded.lens,
}


def figure(chapter: dict) -> dict[str, dict]:
    """Return an update for each of the `Parts`."""
    return HIDDEN | KINDS[chapter["element"]["kind"]](chapter["element"])
