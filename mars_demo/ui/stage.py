"""The stage as a component of the page."""

from collections.abc import Callable, Sequence
from typing import Any

from mars_demo.core.limits import refuse_long
from mars_demo.core.trace import Run, read_text
from mars_demo.show import recordings
from mars_demo.show.components.stage import EMPTY, refusal, stage
from mars_demo.ui.drawing import Drawing


class Stage(Drawing):
    """The stage of a page with a server; see `stage` for `entries`, `empty` and `opens`.

    The value is JSON lines, each a line of a run's record with its lane; it only grows during a race.

    served: further functions of the server for its script: `predictions.prediction` and `replay_page`.

    Events:
        again: run the `prompt` of a `record` again, with its settings, but with this `tau` instead of the
            page's, unless it is null.
        recorded: the visitor chose the recorded run with this `id`.
        mask: show the mask of the forward with this `number` of a run's `record`.
        example: put an example's `prompt` into the prompt box.
    """

    EVENTS = ["again", "recorded", "mask", "example"]

    def __init__(
        self,
        value: str = "",
        *,
        entries: Sequence[dict] | None = None,
        served: Sequence[Callable] = (),
        empty: str = EMPTY,
        opens: bool = True,
        **settings: Any,
    ):
        super().__init__(
            "stage",
            value,
            constants=stage(entries, empty=empty, opens=opens).constants,
            server_functions=() if entries is None else [recordings.recording, refusal, *served],
            **settings,
        )


def read_one(record: Any) -> Run:
    """Read the record of one run.

    Raises:
        ValueError: if it is not such a record, or too long.
    """
    run, *more = read_text(record) or [None]
    if run is None or more:
        raise ValueError("Each lane of the stage holds the record of one run.")
    run.stop = run.stop or "stopped"
    refuse_long(*(message["content"] for message in run.settings.conversation))
    return run
