"""The lens: one component that draws what each layer of a forward would already say."""

from mars_demo.ui.components.drawing import Drawing


class LensPicture(Drawing):
    """Layers from the input at the bottom to the output at the top, slots across.

    The value is the JSON of `lens_picture.line`, or of a `trouble` in its place; without a value nothing is
    shown. Hover, focus or arrow keys tell a cell in words.
    """

    drawing = "lens"
