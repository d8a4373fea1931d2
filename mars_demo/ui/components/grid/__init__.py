"""The grid: one component that draws who sees whom."""

from mars_demo.ui.components.drawing import Drawing


class Grid(Drawing):
    """A layout as a picture: rows are queries, columns keys, a filled cell is seen.

    The value is the JSON of a `mask_picture.Picture`. Hover, focus or arrow keys tell a cell in words; a
    click on a row shows all that it sees as text.
    """

    drawing = "grid"
