"""The schedule: one component that draws who works and who waits in a batch."""

from mars_demo.ui.components.drawing import Drawing


class Schedules(Drawing):
    """Schedules of the same prompts below each other, played step by step.

    The value is JSON lines, a `schedules.Schedule` each.
    """

    drawing = "schedule"
