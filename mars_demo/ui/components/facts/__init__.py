"""The facts: one component that says what the chosen model is, or how far it has been loaded."""

from mars_demo.ui.components.drawing import Drawing


class ModelFacts(Drawing):
    """The value is JSON: the `phase` of a model's `pool.State` with `done` and `total` bytes, its
    `problem`, and `facts`, pairs of what they are about and what they say.
    """

    def __init__(
        self, value: str = "", *, elem_id: str = "facts", visible: bool = True, render: bool = True
    ):
        super().__init__("facts", value, elem_id=elem_id, visible=visible, render=render)
