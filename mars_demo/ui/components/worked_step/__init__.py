"""The worked step: one component in which τ and the scores of two windows can be moved."""

import json
from typing import Any

from mars_demo.ui.components.drawing import Drawing
from mars_demo.views import worked_step


class WorkedStep(Drawing):
    """Windows as rows of slots above the places of the text, and a slider for τ and for each score.

    The value is the JSON of `worked_step.worked`, which also answers every move of a slider: the script
    only draws.
    """

    drawing = "worked_step"

    def __init__(self, value: str = "", **settings: Any):
        super().__init__(value, server_functions=[worked_step.asked], **settings)


def worked(tau: float, scores: list[list[float]]) -> str:
    """The component's value for these settings."""
    return json.dumps(worked_step.worked(tau, scores), ensure_ascii=False)
