"""Curves of a training: losses, what each slot guesses, and how fast and right the answers become."""

from typing import Any

from mars_demo.training import watching
from mars_demo.ui.components.drawing import Drawing


class Curves(Drawing):
    """Draws the record of a training while it comes and afterwards; every step of it can be gone back to.

    The value is the JSON lines of `watching.watch`, which only grow. Until there is one, the first recorded
    training is shown.

    Args:
        stage: the `elem_id` of the stage that shows the answer of each step.
    """

    def __init__(self, value: str = "", *, stage: str, **settings: Any):
        constants = {"stage": stage, "recordings": watching.index()}
        functions = [watching.recording]
        super().__init__("curves", value, constants=constants, server_functions=functions, **settings)
