"""The kinds of figures that may stand beside a chapter.

A chapter's data name a kind. Its function gets the chapter's `element` and gives updates of `parts.Parts`;
all other parts are hidden. To add a kind: its components to `parts.py`, and a function to this table.
"""

from collections.abc import Callable

from mars_demo.ui.lessons import comparing, layers, measured, recorded, tables, worked
from mars_demo.ui.lessons.parts import HIDDEN

KINDS: dict[str, Callable[[dict], dict[str, dict]]] = {
    "stage": recorded.stage,
    "race": recorded.race,
    "grid": recorded.grid,
    "choice": recorded.choose,
    "worked-step": worked.worked_step,
    "costs": measured.costs,
    "answers": comparing.answers,
    "gaps": tables.gaps,
    "neighbours": tables.neighbours,
    "comparison": tables.comparison,
    "schedule": measured.schedule,
    "cache-block": measured.cache_block,
    "lens": layers.lens,
}


def figure(chapter: dict) -> dict[str, dict]:
    """What stands beside a chapter: an update for each part."""
    wanted = chapter["element"]
    return HIDDEN | KINDS[wanted["kind"]](wanted)
