"""Answers: one component that says which answers of several models and modes are the same."""

from mars_demo.ui.components.drawing import Drawing


class Answers(Drawing):
    """Answers below each other, each compared with one of them, token for token.

    The value is JSON lines, which only grow: a heading with the `lanes`, pairs of a name and a title, and
    the one that the others are `compared` with; then the lines of their records, each with its lane.
    """

    drawing = "answers"
