"""The stage: one component that draws the record of a race, while it grows and afterwards."""

from mars_demo import outside, recordings
from mars_demo.ui.drawing import Drawing

EMPTY = "Press Run: the same model answers one token at a time and with MARS."


class Stage(Drawing):
    """Lanes of tokens coloured by the forward that accepted them, with replay and a window per forward.

    The value is JSON lines, each a line of a run's record with its lane; it only grows during a race.

    Args:
        shelf: with recorded runs, downloads, the visit's past runs and the page's address, which only one
            stage of a page can have.
        empty: what it says while there is no record on it.

    Events: `again`, with the `prompt` to run and `tau`, which stays as it is where it is null; `recorded`,
    with the `id` of the recorded run that the visitor chose.
    """

    def __init__(
        self,
        value: str = "",
        *,
        shelf: bool = True,
        empty: str = EMPTY,
        elem_id: str = "stage",
        visible: bool = True,
        render: bool = True,
    ):
        super().__init__(
            "stage",
            ("record", "lane", "closeup", "card", "picture", "stage"),
            value,
            elem_id=elem_id,
            visible=visible,
            render=render,  # for Gradio's own updates
            server_functions=[recordings.recording, outside.advice],
            shelf=shelf,
            empty=empty,
            recordings=recordings.index() if shelf else [],
        )
