"""Controls and event settings that several tabs share."""

import asyncio
import functools
import html
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import gradio as gr
from gradio.context import LocalContext

from mars_demo.limits import LIMITS
from mars_demo.scheduler import Queue
from mars_demo.ui.hosting.gpu import LENT
from mars_demo.ui.hosting.guard import sentence
from mars_demo.ui.hosting.shared_state import Number, SharedState
from mars_demo.ui.hosting.visitors import at_leaving

TAU = 0.95
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
EACH = {**MAY_WARN, "trigger_mode": "multiple"}
NAP = 0.1  # seconds
PATIENCE = 20  # seconds within which a run must stop for its visitor's next one
QUEUE = Queue()
LOOK = 0.5  # seconds between two messages to a visitor in the queue
SECOND = "Your last run has not stopped yet: stop it, or wait until it has ended."


def at_once() -> int:
    """Return the number of races that run concurrently, in turns. A lent GPU serves one at a time."""
    return 1 if LENT else LIMITS.races


def in_turns() -> dict[str, Any]:
    """Return the settings of events that start a race; further visitors wait in Gradio's queue."""
    return {"concurrency_id": "model", "concurrency_limit": at_once(), "api_visibility": "private"}


class Knobs(SharedState):
    """The settings that a visitor may change while models run."""

    tau = Number(TAU)
    wait = Number(0)  # ms of slow motion after each forward
    running = Number(False)  # from the start of a run until the page has been notified of its end

    def pause(self) -> None:
        """Sleep for the slow-motion pause; a changed pause or a stop takes effect within `NAP`."""
        started = time.monotonic()
        while not self.stopped and (left := self.wait / 1000 - (time.monotonic() - started)) > 0:
            time.sleep(min(left, NAP))


# ----------------------------------------------------------------------------------- components


def model_list(elem_id: str, **more: Any) -> gr.Dropdown:
    return gr.Dropdown([], label="Model", elem_id=elem_id, **more)


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
        buttons=[],
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
        starts: Sequence[Callable],
        work: Callable,
        inputs: list,
        outputs: Any,
        settings: Sequence = (),
        before: tuple[Callable, Any] | None = None,
        **more: Any,
    ) -> None:
        """Start `work`, with `inputs` and the knobs, on each of the events.

        settings: the components with the knobs' τ and wait. before: a handler to finish first, and its
        inputs. more: settings of the event that does the work.
        """
        both = [self.run, self.stop]
        for start in starts:
            begun = start(begin, [self.knobs, *settings], both, **QUIET)
            begun.failure(refuse_second, None, None, **MAY_WARN)
            if before:
                begun = begun.success(*before, None, **MAY_WARN)
                begun.failure(end, self.knobs, both, **QUIET)
            worked = begun.success(work, [*inputs, self.knobs], outputs, **more)
            for ended in (worked.success, worked.failure):  # `then` would follow a success only
                ended(end, self.knobs, both, **QUIET)


# --------------------------------------------------------------------------------------- events


async def begin(knobs: Knobs, request: gr.Request, tau: float = TAU, wait: float = 0):
    """Begin a run: set the knobs to the page's values, disable Run and enable Stop.

    The run stops when its visitor leaves or starts another.

    Raises:
        gr.Error: if their last run does not stop in time. The page does not show it; see `refuse_second`.
    """
    await _take_over(knobs)
    knobs.tau, knobs.wait, knobs.stopped = tau, wait, False
    at_leaving(request, stop, knobs)
    return gr.Button(interactive=False), gr.Button(interactive=True)


async def _take_over(knobs: Knobs) -> None:
    """Stop the current run, if there is one, and wait for its end. If it does not stop in time, it goes on.

    This coroutine runs in the server's event loop, so it blocks no thread, and only one of two runs that
    begin together continues.
    """
    was_stopped, given_up = knobs.stopped, time.monotonic() + PATIENCE
    while knobs.running:
        if time.monotonic() > given_up:
            knobs.stopped = was_stopped
            raise gr.Error(SECOND, print_exception=False)
        knobs.stopped = True
        await asyncio.sleep(NAP)
    knobs.running = True


def refuse_second() -> None:
    """Warn that the last run has not stopped, after `begin` has failed."""
    gr.Warning(SECOND)


def refuse_crowd() -> None:
    """Reject a run while Gradio's queue is full. Gradio's own check comes too late to reset the buttons.

    Raises:
        gr.Error: if too many visitors are waiting.
    """
    app = LocalContext.blocks.get(None)
    if app and len(app._queue) >= LIMITS.waiting:
        message = f"The queue is full: {LIMITS.waiting} visitors are waiting. Try again in a minute."
        raise gr.Error(message, print_exception=False)


def end(knobs: Knobs):
    """End a run: enable Run and disable Stop."""
    knobs.running = False
    return gr.Button(interactive=True), gr.Button(interactive=False)


def stop(knobs: Knobs) -> None:
    knobs.stopped = True


def set_tau(knobs: Knobs, tau: float) -> None:
    knobs.tau = tau


def set_wait(knobs: Knobs, wait: float) -> None:
    knobs.wait = wait


def in_queue(work: Callable[..., Iterator], outputs: int, queue: Queue = QUEUE) -> Callable[..., Iterator]:
    """Return a handler that runs `work` after waiting in a queue that visitors can leave, unlike Gradio's.

    It has one more output than `work`, the last: the visitor's place in the queue and estimated wait.

    work: a generator function with `outputs` outputs; its last input is a `SharedState`.
    """
    still = [gr.skip()] * outputs

    def steps(*inputs: Any) -> Iterator[list]:
        shared: SharedState = inputs[-1]
        with queue.ticket() as ticket:
            while ahead := queue.ahead(ticket, LOOK):
                if shared.stopped:
                    yield [*still, "Stopped before it started."]
                    return
                others = "One long run is" if ahead == 1 else f"{ahead} long runs are"
                yield [*still, f"{others} ahead of yours: about {queue.seconds(ahead):.0f} seconds."]
            yield [*still, ""]
            with closing(work(*inputs)) as results:
                for result in results:
                    yield [*(result if outputs > 1 else [result]), gr.skip()]

    @functools.wraps(work)
    def handler(*inputs: Any) -> Iterator[list]:
        yield from or_warn(steps(*inputs), [*still, ""])

    return handler


def or_warn(results: Iterator, nothing: Any) -> Iterator:
    """Yield the results; turn a ValueError into a warning and a last result `nothing`."""
    try:
        yield from results
    except ValueError as error:
        warn(error)
        yield nothing


def warn(error: ValueError) -> None:
    gr.Warning(html.escape(sentence(error)))
