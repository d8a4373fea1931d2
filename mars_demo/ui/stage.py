"""The stage as a component of the page."""

from collections.abc import Callable, Sequence
from typing import Any

from mars_demo.show import recordings
from mars_demo.show.components.stage import EMPTY, refusal, stage
from mars_demo.ui.drawing import Drawing


class Stage(Drawing):
    """The stage of a page with a server; see `stage` for `entries`, `empty` and `opens`.

    The value is JSON lines, each a line of a run's record with its lane; it only grows during a race.

    served: further functions of the server for its script: `branches.prediction` and `replay_page`.

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
