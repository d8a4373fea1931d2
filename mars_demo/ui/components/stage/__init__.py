"""The stage: one component that draws the record of a race, while it grows and afterwards."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from mars_demo.decoding.fields import SOURCES
from mars_demo.decoding.trace import Run, read_text
from mars_demo.limits import LIMITS
from mars_demo.modes import BASELINE, MODES
from mars_demo.ui import branches, standalone
from mars_demo.ui.components.drawing import Drawing
from mars_demo.views import recordings

SETTINGS = ("prompt", "model", "mode", "tau", "criterion")  # of a race, in the page's address
EMPTY = "Press Run: the same model answers one token at a time and with MARS."

_REPLAY = Template((Path(__file__).parent / "replay.html").read_text("utf-8"))


def drawn_modes() -> list[dict]:
    """Return the table of modes as far as the stage needs it, in the order of the lanes."""
    fields = ("name", "title", "uses_tau", "needs_draft", "beyond")
    ordered = sorted(MODES.values(), key=lambda mode: mode.name != BASELINE)
    return [{field: getattr(mode, field) for field in fields} for mode in ordered]


class Stage(Drawing):
    """Lanes of tokens coloured by the forward that accepted them, with replay and a window per forward.

    The value is JSON lines, each a line of a run's record with its lane; it only grows during a race.

    Args:
        shelf: with recorded runs, downloads, the visit's past runs and the page's address, which only one
            stage of a page can have.
        alone: nothing else is on its page: without a shelf it has its texts and the keys all the same.
        entries: those of `recordings.index()` on the shelf; None for all.
        empty: what it says while there is no record on it.

    Events:
        again: run a `prompt` after `messages`, with `tau` and `criterion`, which stay as they are where
            they are null.
        reply: the next prompt continues `messages`; without any it begins a new conversation.
        history: another record came onto the stage, with these `messages` and this `system` prompt, which
            stays as it is where it is null. Replies and these have a `number`, larger each time.
        recorded: the visitor chose the recorded run with this `id`.
        branch: of the `records` of runs, that at index `of` is to go on from token `at` of its answer with
            something `instead`: a list of one token id, or a text. The others stay on the stage; that one
            does too unless the branch is to `replace` it.
        mask: the mask of a forward is to be shown, with its run's `record` and its `number`.
    """

    EVENTS = ["again", "reply", "history", "recorded", "branch", "mask"]

    def __init__(
        self,
        value: str = "",
        *,
        shelf: bool = True,
        alone: bool = False,
        entries: Sequence[dict] | None = None,
        empty: str = EMPTY,
        **settings: Any,
    ):
        shown = recordings.index() if entries is None else entries
        served = [recordings.recording, branches.opinion, replay_page, refusal]
        super().__init__(
            "stage",
            value,
            constants={
                "shelf": shelf,
                "bare": not (shelf or alone),
                "empty": empty,
                "modes": drawn_modes(),
                "mebibytes": LIMITS.record,
                "sources": SOURCES,
                "settings": SETTINGS,
                "lanes": branches.MOST_LANES,
                "recordings": shown if shelf else [],
            },
            server_functions=served if shelf else (),
            **settings,
        )


def refusal(record: Any) -> str:
    """Return why the stage cannot draw a record; "" if it can."""
    try:
        _read(record)
    except ValueError as error:
        return str(error)
    return ""


def _read(record: Any) -> list[Run]:
    """
    Raises:
        ValueError: if it is not a record, or larger than a page takes.
    """
    runs = read_text(record)
    if not any(run.passes for run in runs):
        raise ValueError("This is not the record of a run: it has no forward.")
    return runs


def replay_page(record: str) -> str:
    """Return a record as one HTML file that replays it without a server.

    record: JSON lines, those of its runs and before them the title and note, if it was recorded.

    Raises:
        ValueError: if it is not a record, or larger than a page takes.
    """
    runs = _read(record)
    stage = Stage(shelf=False, alone=True, render=False)
    title = textwrap.shorten(runs[0].settings.prompt, 80, placeholder=" …")
    body = _REPLAY.substitute(figure=standalone.figure(stage, record))
    return standalone.document(f"MARS Demo: {title}", body, [stage])
