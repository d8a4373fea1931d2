"""The stage, which draws the record of a race while it grows and afterwards."""

from collections.abc import Sequence
from typing import Any

from mars_demo.core.assets import read_json
from mars_demo.core.fields import SOURCES
from mars_demo.core.limits import LIMITS
from mars_demo.core.modes import BASELINE, MODES
from mars_demo.core.trace import Run, read_text
from mars_demo.show.components import Figure

EMPTY = "Press Run: the model answers the prompt one token at a time and with MARS."
MOST_LANES = 6


def drawn_modes() -> list[dict]:
    """Return the modes with the fields that the stage needs, in the order of the lanes."""
    fields = ("name", "title", "uses_tau", "needs_draft", "beyond")
    ordered = sorted(MODES.values(), key=lambda mode: mode.name != BASELINE)
    return [{field: getattr(mode, field) for field in fields} for mode in ordered]


def stage(
    entries: Sequence[dict] | None = None, alone: bool = False, empty: str = EMPTY, opens: bool = True
) -> Figure:
    """Return the figure of lanes of tokens coloured by the forward that accepted them, with replay.

    Args:
        entries: the entries of `recordings.index()` to choose from. With these, even if there are none, it
            also has downloads, the list of past runs and the page's URL; only one stage of a page can.
        alone: whether it is alone on its page; if so, it has texts and keys even without entries.
        empty: the text of the stage without a record.
        opens: whether it begins with the first of the entries if the URL has no settings of a race.
    """
    main = entries is not None
    return Figure(
        "stage",
        {
            "main": main,
            "opens": opens,
            "bare": not (main or alone),
            "empty": empty,
            "modes": drawn_modes(),
            "mebibytes": LIMITS.record,
            "sources": SOURCES,
            "lanes": MOST_LANES,
            "recordings": [{name: entry[name] for name in ("id", "title")} for entry in entries or []],
            "examples": read_json("prompts.json") if main else [],
        },
    )


def refusal(record: Any) -> str:
    """Return the reason why the stage cannot draw a record; "" if it can."""
    try:
        read_record(record)
    except ValueError as error:
        return str(error)
    return ""


def read_record(record: Any) -> list[Run]:
    """Read a record with at least one forward.

    Raises:
        ValueError: if it is not a record, or larger than the limit.
    """
    runs = read_text(record)
    if not any(run.passes for run in runs):
        raise ValueError("This is not the record of a run: it has no forward.")
    return runs
