"""Controls and event settings that several tabs share."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gradio as gr

from mars_demo.core.acceptance import CRITERIA
from mars_demo.core.limits import LIMITS
from mars_demo.ui.hosting.errors import warn
from mars_demo.ui.hosting.gpu import LENT
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.knobs import TAU, Knobs, begin, end, stop

SCORES = [(criterion.title.capitalize(), name) for name, criterion in CRITERIA.items()]
TAU_STEP = 0.01  # of every τ slider, as in components/words.js

# Event settings. Such handlers run at once, outside of Gradio's queue; the page shows no errors of theirs.
QUIET = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
# For a control that is being moved: while one value is handled, only the latest of the next ones waits.
LIVE = {**QUIET, "trigger_mode": "always_last"}
# For scripts that run in the browser only.
IN_BROWSER = {"show_progress": "hidden", "api_visibility": "private"}
# For handlers that also run at once and may show a warning or an error.
MAY_WARN = {"concurrency_limit": None, **IN_BROWSER}
# The same for events that carry data: by default Gradio's page drops those that come while one is being
# handled, and "always_last" would repeat the first.
WITH_DATA = {**MAY_WARN, "trigger_mode": "multiple"}


def at_once() -> int:
    """Return the number of races that run concurrently, in turns. A lent GPU serves one at a time."""
    return 1 if LENT else LIMITS.races


def in_turns() -> dict[str, Any]:
    """Return the settings of events that start a race; further visitors wait in Gradio's queue."""
    return {"concurrency_id": "model", "concurrency_limit": at_once(), "api_visibility": "private"}


def in_queue(name: str, shown_on: gr.Component) -> dict[str, Any]:
    """Return the settings of events that start long work of a kind: one at a time, in Gradio's queue.

    shown_on: the component that shows the place in the queue.
    """
    progress = {"show_progress": "minimal", "show_progress_on": shown_on}
    return {"concurrency_id": name, "concurrency_limit": 1, "api_visibility": "private", **progress}


def text_table(elem_id: str, label: str, widths: list[str] | None = None) -> gr.Dataframe:
    """Return a table of plain texts, whose rows break lines where columns have `widths`."""
    return gr.Dataframe(
        label=label,
        show_label=False,
        datatype="str",  # texts of visitors and models are never Markdown or HTML
        interactive=False,
        wrap=bool(widths),
        column_widths=widths,
        max_height=320,
        buttons=["copy"],
        elem_id=elem_id,
        elem_classes="texts",
    )


def tau_slider(elem_id: str, value: float = TAU, info: str | None = None) -> gr.Slider:
    return gr.Slider(0, 1, value, step=TAU_STEP, label="Threshold τ", info=info, elem_id=elem_id)


class RunButtons:
    """Buttons that start, optionally pause, and stop some work, and the visitor's knobs for it.

    Their element ids are `run` and `stop` after the prefix.
    """

    def __init__(
        self,
        prefix: str = "",
        label: str = "Run",
        knobs: Knobs | None = None,
        pause: gr.Button | None = None,
    ):
        self.knobs = gr.State(knobs or Knobs())
        with gr.Row():
            self.run = gr.Button(label, variant="primary", scale=2, min_width=100, elem_id=f"{prefix}run")
            if pause:
                pause.render()
            self.stop = gr.Button("Stop", interactive=False, min_width=70, elem_id=f"{prefix}stop")
        # Registered once, not in `on`: if a click sent several requests, the last could stop the next run.
        self.stop.click(stop, self.knobs, None, **QUIET)

    def on(
        self,
        start: Callable,
        work: Callable,
        inputs: list,
        outputs: Any,
        settings: Sequence = (),
        model: gr.Component | None = None,
        **more: Any,
    ) -> None:
        """Start `work`, a generator function of `inputs` and the knobs, on an event.

        A ValueError becomes a warning and leaves the outputs unchanged.

        settings: the components with the knobs' `tau` and `watched`. model: a component with the name of
        the model to load first. more: settings of the event that does the work.
        """
        both = [self.run, self.stop]
        unchanged = [gr.skip()] * len(outputs) if isinstance(outputs, list) else gr.skip()

        @functools.wraps(work)
        def warning(*values: Any) -> Iterator:
            try:
                yield from work(*values)
            except ValueError as error:
                warn(error)
                yield unchanged

        begun = start(begin, [self.knobs, *settings], both, **MAY_WARN)
        if model:
            begun = begun.success(load, model, None, **MAY_WARN)
        worked = begun.success(warning, [*inputs, self.knobs], outputs, **more)
        for ended in (worked.success, worked.failure):  # `then` would follow a success only
            ended(end, self.knobs, both, **QUIET)


def load(model: str) -> None:
    """Load a model before its run enters Gradio's queue. A failure is reported later, by the run."""
    with contextlib.suppress(ValueError):
        MODELS.load(model)
