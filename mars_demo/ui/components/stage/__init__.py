"""The stage: one component that draws the record of a race, while it grows and afterwards."""

from collections.abc import Sequence

from mars_demo.decoding.trace import READABLE, SOURCES
from mars_demo.evaluation import outside
from mars_demo.modes import MODES
from mars_demo.ui.components.drawing import Drawing
from mars_demo.views import recordings

BASELINE = "ar"  # the first lane, which the others are compared with
SETTINGS = ("prompt", "model", "mode", "tau", "criterion")  # of a race, in the page's address
EMPTY = "Press Run: the same model answers one token at a time and with MARS."


def drawn_modes() -> list[dict]:
    """The table of modes as far as the stage needs it, in the order of the lanes."""
    fields = ("name", "title", "uses_tau", "needs_draft", "beyond")
    ordered = sorted(MODES.values(), key=lambda mode: mode.name != BASELINE)
    return [{field: getattr(mode, field) for field in fields} for mode in ordered]


class Stage(Drawing):
    """Lanes of tokens coloured by the forward that accepted them, with replay and a window per forward.

    The value is JSON lines, each a line of a run's record with its lane; it only grows during a race.

    Args:
        shelf: with recorded runs, downloads, the visit's past runs and the page's address, which only one
            stage of a page can have.
        recorded: the entries of `recordings.index()` on the shelf; None for all.
        empty: what it says while there is no record on it.

    Events:
        again: run a `prompt` after `messages`, with `tau` and `criterion`, which stay as they are where
            they are null.
        reply: the next prompt continues `messages`; without any it begins a new conversation.
        history: another record came onto the stage, with these `messages` and this `system` prompt, which
            stays as it is where it is null.
        recorded: the visitor chose the recorded run with this `id`.
        mask: the mask of a forward is to be shown, with its run's `record` and its `number`.
    """

    def __init__(
        self,
        value: str = "",
        *,
        shelf: bool = True,
        recorded: Sequence[dict] | None = None,
        empty: str = EMPTY,
        elem_id: str = "stage",
        visible: bool = True,
        render: bool = True,
    ):
        shown = recordings.index() if recorded is None else recorded
        super().__init__(
            "stage",
            value,
            {
                "shelf": shelf,
                "empty": empty,
                "modes": drawn_modes(),
                "schemas": READABLE,
                "sources": SOURCES,
                "settings": SETTINGS,
                "recordings": shown if shelf else [],
            },
            elem_id=elem_id,
            visible=visible,
            render=render,  # for Gradio's own updates
            server_functions=[recordings.recording, outside.advice],
        )
