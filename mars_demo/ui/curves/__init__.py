"""Curves of a training: losses, what each slot guesses, and how fast and right the answers become."""

from mars_demo.ui.drawing import Drawing


class Curves(Drawing):
    """Draws metrics while they come; updated in place, never remounted.

    The value is JSON lines that only grow: the settings (`steps`, `block_size`), then a line per step as
    `training.Metrics` writes it, and in between lines with `probe`, the step after which the held-out
    prompts were answered, their `accuracy` and `tokens_per_forward`.
    """

    def __init__(self, value: str = "", *, elem_id: str = "curves", render: bool = True):
        super().__init__("curves", ("curves",), value, elem_id=elem_id, render=render)
