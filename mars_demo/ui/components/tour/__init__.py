"""The tour component: an introduction to the Race tab. `assets/tour.json` has its texts and races."""

from mars_demo.assets import read_json
from mars_demo.ui.components.drawing import Drawing

STEPS = read_json("tour.json")


class Tour(Drawing):
    """A button that starts the tour, and the box of its current step.

    Each step has a `title` and a `text`. It may point `at` a part of the page (a CSS selector), list the
    next `tabs` to open, or ask for a prediction about a `race`: how many tokens the `first` forward of its
    mode accepts, or how many of its tokens are `copied`.

    Events:
        race: run a `prompt` with this `model`, `mode`, `tau` and `criterion`.
    """

    EVENTS = ["race"]

    def __init__(self, *, visible: bool = True):
        super().__init__("tour", constants=STEPS, visible=visible)
