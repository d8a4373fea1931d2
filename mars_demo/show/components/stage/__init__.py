"""The stage component, which draws the record of a race while it grows and afterwards."""

from collections.abc import Callable, Sequence
from typing import Any

from mars_demo.core.assets import read_json
from mars_demo.core.fields import SOURCES
from mars_demo.core.limits import LIMITS
from mars_demo.core.modes import BASELINE, MODES
from mars_demo.core.trace import Run, read_text
from mars_demo.show import recordings
from mars_demo.show.components.drawing import Drawing

EMPTY = "Press Run: the model answers the prompt one token at a time and with MARS."
MOST_LANES = 6


def drawn_modes() -> list[dict]:
    """Return the modes with the fields that the stage needs, in the order of the lanes."""
    fields = ("name", "title", "uses_tau", "needs_draft", "beyond")
    ordered = sorted(MODES.values(), key=lambda mode: mode.name != BASELINE)
    return [{field: getattr(mode, field) for field in fields} for mode in ordered]


class Stage(Drawing):
    """Lanes of tokens coloured by the forward that accepted them, with replay and a window per forward.

    The value is JSON lines, each a line of a run's record with its lane; it only grows during a race.

    Args:
        entries: the entries of `recordings.index()` to choose from. With these, even if there are none, it
            also has downloads, the list of past runs and the page's URL; only one stage of a page can.
        served: further functions of the server for its script: `branches.prediction` and `replay_page`.
        alone: whether it is alone on its page; if so, it has texts and keys even without entries.
        empty: the text of the stage without a record.

    Events:
        again: run the `prompt` of a `record` again, with its settings, but with this `tau` instead of the
            page's and this `window` instead of its own, unless they are null.
        window: set the page's window to this number of slots.
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

    EVENTS = ["again", "window", "reply", "history", "recorded", "branch", "mask", "example"]

    def __init__(
        self,
        value: str = "",
        *,
        entries: Sequence[dict] | None = None,
        served: Sequence[Callable] = (),
        alone: bool = False,
        empty: str = EMPTY,
        **settings: Any,
    ):
        main = entries is not None
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
                "lanes": MOST_LANES,
                "recordings": [{name: entry[name] for name in ("id", "title")} for entry in entries or []],
                "examples": read_json("prompts.json") if main else [],
            },
            server_functions=[recordings.recording, refusal, *served] if main else (),
            **settings,
        )


def refusal(record: Any) -> str:
    """Return the reason why the stage cannot draw a record; "" if it can."""
    try:
        read(record)
    except ValueError as error:
        return str(error)
    return ""


def read(record: Any) -> list[Run]:
    """Read a record with at least one forward.

    Raises:
        ValueError: if it is not a record, or larger than the limit.
    """
    runs = read_text(record)
    if not any(run.passes for run in runs):
        raise ValueError("This is not the record of a run: it has no forward.")
    return runs
