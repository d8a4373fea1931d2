"""The frontier: one component that draws quality against speed, and the answers behind each point."""

from typing import Any

from mars_demo.modes import MODES
from mars_demo.ui.components.drawing import Drawing


class Frontier(Drawing):
    """A line of points per criterion, a point per τ; modes without a τ are single points.

    The value is JSON lines, which only grow while something is measured: a heading with the `results`'
    name, a line per point, and a closing line with the whole as files. `ui/tabs/frontier.py` makes them.

    Args:
        paper: figures of the paper that can be laid over it, as that tab makes them.

    Events:
        chosen: the visitor chose a point, with its `model`, `mode`, `tau` and `criterion`; these two are
            null where the mode has none.
        opened: one of the answers behind it, also with its `prompt`.
        raced: the Race tab is to be opened.
    """

    def __init__(
        self, value: str = "", *, paper: Any = None, elem_id: str = "frontier", render: bool = True
    ):
        modes = {mode.name: mode.title for mode in MODES.values()}
        super().__init__(
            "frontier", value, {"modes": modes, "paper": paper}, elem_id=elem_id, render=render
        )
