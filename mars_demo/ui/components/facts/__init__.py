"""The facts: one component that says what the chosen model is, or how far it has been loaded."""

from mars_demo.ui.components.drawing import Drawing


class ModelFacts(Drawing):
    """The value is JSON: the `phase` of a model's `pool.State` with `done` and `total` bytes, its
    `problem`, and `facts`, pairs of what they are about and what they say.
    """

    drawing = "facts"
