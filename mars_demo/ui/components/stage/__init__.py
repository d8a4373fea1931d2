"""The stage component, which draws the record of a race while it grows and afterwards."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from mars_demo.assets import read_json
from mars_demo.decoding.fields import SOURCES
from mars_demo.decoding.trace import Run, read_text
from mars_demo.limits import LIMITS
from mars_demo.modes import BASELINE, MODES
from mars_demo.ui import branches, standalone
from mars_demo.ui.components.drawing import Drawing
from mars_demo.views import recordings

EMPTY = "Press Run: the same model answers one token at a time and with MARS."
SLOT = "\ue000"  # a private-use character, which no file of the page has

_REPLAY = Template((Path(__file__).parent / "replay.html").read_text("utf-8"))


def drawn_modes() -> list[dict]:
    """Return the modes with the fields that the stage needs, in the order of the lanes."""
    fields = ("name", "title", "uses_tau", "needs_draft", "beyond")
    ordered = sorted(MODES.values(), key=lambda mode: mode.name != BASELINE)
    return [{field: getattr(mode, field) for field in fields} for mode in ordered]


class Stage(Drawing):
    """Lanes of tokens coloured by the forward that accepted them, with replay and a window per forward.

    The value is JSON lines, each a line of a run's record with its lane; it only grows during a race.

    Args:
        main: whether it is the main stage of the app, which has recorded runs, downloads, the list of past
            runs and the page's URL.
        alone: whether it is alone on a static page; if so, it also has texts and keys.
        entries: the entries of `recordings.index()` that the main stage offers; None for all.
        empty: the text of the stage without a record.

    Events:
        again: run a `prompt` after `messages`, with `tau` and `criterion`; null leaves these unchanged.
        reply: continue `messages` with the next prompt; without messages, begin a new conversation.
        history: another record is on the stage, with these `messages` and this `system` prompt; null leaves
            the latter unchanged. Events `reply` and `history` have an increasing `number`.
        recorded: the visitor chose the recorded run with this `id`.
        branch: continue the run at index `of` of the `records` from token `at` of its answer, with
            `instead`: a list of one token id, or a text. All runs stay on the stage, except this one if the
            branch is to `replace` it.
        mask: show the mask of the forward with this `number` of a run's `record`.
        example: put an example's `prompt` into the prompt box.
    """

    EVENTS = ["again", "reply", "history", "recorded", "branch", "mask", "example"]

    def __init__(
        self,
        value: str = "",
        *,
        main: bool = True,
        alone: bool = False,
        entries: Sequence[dict] | None = None,
        empty: str = EMPTY,
        **settings: Any,
    ):
        shown = recordings.index() if entries is None else entries
        served = [recordings.recording, branches.prediction, replay_page, refusal]
        super().__init__(
            "stage",
            value,
            constants={
                "main": main,
                "bare": not (main or alone),
                "empty": empty,
                "modes": drawn_modes(),
                "mebibytes": LIMITS.record,
                "sources": SOURCES,
                "lanes": branches.MOST_LANES,
                "recordings": shown if main else [],
                "examples": read_json("prompts.json") if main else [],
            },
            server_functions=served if main else (),
            **settings,
        )


def refusal(record: Any) -> str:
    """Return the reason why the stage cannot draw a record; "" if it can."""
    try:
        _read(record)
    except ValueError as error:
        return str(error)
    return ""


def _read(record: Any) -> list[Run]:
    """Read a record with at least one forward.

    Raises:
        ValueError: if it is not a record, or larger than the limit.
    """
    runs = read_text(record)
    if not any(run.passes for run in runs):
        raise ValueError("This is not the record of a run: it has no forward.")
    return runs


def replay_page(record: str) -> str:
    """Return one HTML file that replays a record without a server.

    record: the JSON lines of its runs, after the title and note if it is a recording.

    Raises:
        ValueError: if it is not a record, or larger than the limit.
    """
    runs = _read(record)
    return _replay(textwrap.shorten(runs[0].settings.prompt, 80, placeholder=" …"), record)


def replay_template() -> str:
    """Return such a file with `SLOT` in place of the prompt, and again of the record without markup."""
    return _replay(SLOT, SLOT)


def _replay(title: str, record: str) -> str:
    stage = Stage(main=False, alone=True, render=False)
    body = _REPLAY.substitute(figure=standalone.figure(stage, record))
    return standalone.document(f"MARS Demo: {title}", body, [stage])
