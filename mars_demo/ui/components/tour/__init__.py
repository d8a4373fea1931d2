"""The tour: steps over the Race tab for a first visit. `assets/tour.json` has its texts and its races."""

from mars_demo.assets import read_json
from mars_demo.ui.components.drawing import Drawing

STEPS = read_json("tour.json")


class Tour(Drawing):
    """A button, and the box of a step.

    Each step has a `title` and a `text`. It may point `at` a part of the page, which a selector names, list
    `tabs` to go on to, or ask for a prediction of a `race`: how many tokens the `first` forward of its mode
    accepts, or how many of its tokens are `copied`.

    Events:
        race: run a `prompt` with this `model`, `mode`, `tau` and `criterion`.
    """

    EVENTS = ["race"]

    def __init__(self, *, visible: bool = True):
        super().__init__("tour", constants=STEPS, visible=visible)
