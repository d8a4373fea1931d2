"""Controls, and settings of events, that several tabs share."""

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
from mars_demo.ui.board import Board, Number
from mars_demo.ui.gpu import LENT
from mars_demo.ui.guard import sentence
from mars_demo.ui.visitors import at_leaving

TAU = 0.95

# Settings of events. Answered at once, outside of Gradio's queue, without warnings and errors on the page.
QUIET = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
# Following a control: while one value is being answered, only the last of the next ones waits.
LIVE = {**QUIET, "trigger_mode": "always_last"}
# Only a script in the browser.
IN_BROWSER = {"show_progress": "hidden", "api_visibility": "private"}
# Answered at once too, by a handler that may warn or fail with a sentence.
MAY_WARN = {"concurrency_limit": None, **IN_BROWSER}
# The same where the event says what was chosen: Gradio's page would drop those that come while one is being
# answered, and "always_last" would repeat the first.
EACH = {**MAY_WARN, "trigger_mode": "multiple"}
NAP = 0.1  # seconds
PATIENCE = 20  # seconds that a run may take to stop for the next one of its visitor
QUEUE = Queue()
LOOK = 0.5  # seconds between two messages to a visitor who waits in it
SECOND = "Your last run has not stopped yet: stop it, or wait until it has ended."


def at_once() -> int:
    """Return how many races go on at once, in turns. A lent GPU serves one at a time."""
    return 1 if LENT else LIMITS.races


def in_turns() -> dict[str, Any]:
    """Return the settings of events that race: more visitors wait in Gradio's queue."""
    return {"concurrency_id": "model", "concurrency_limit": at_once(), "api_visibility": "private"}


class Knobs(Board):
    """What a visitor may change while models run."""

    tau = Number(TAU)
    wait = Number(0)  # ms of slow motion after each forward
    running = Number(False)  # from the start of a run until the page knows of its end

    def pause(self) -> None:
        """Rest in slow motion, while others have their turns; a changed wait or a stop counts soon."""
        started = time.monotonic()
        while not self.stopped and (left := self.wait / 1000 - (time.monotonic() - started)) > 0:
            time.sleep(min(left, NAP))


# ----------------------------------------------------------------------------------- components


def model_list(elem_id: str, **more: Any) -> gr.Dropdown:
    return gr.Dropdown([], label="Model", elem_id=elem_id, **more)


def tau_slider(elem_id: str, value: float = TAU, info: str | None = None) -> gr.Slider:
    return gr.Slider(0, 1, value, step=0.01, label="Threshold τ", info=info, elem_id=elem_id)


class RunButtons:
    """A button that starts work, perhaps one that pauses it, one that stops it, and the visitor's knobs of
    that work. The ids are `run` and `stop` after the prefix."""

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
        # Once, whatever starts work: of several requests for one click the last might stop the next run.
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
        """Let events start `work`, which gets `inputs` and the knobs.

        settings: the components with the knobs' τ and wait. before: a handler that waits for something
        before that, and its inputs. more: settings of the event that works.
        """
        both = [self.run, self.stop]
        for start in starts:
            begun = start(begin, [self.knobs, *settings], both, **QUIET)
            begun.failure(refuse_second, None, None, **MAY_WARN)
            if before:
                begun = begun.success(*before, None, **MAY_WARN)
                begun.failure(end, self.knobs, both, **QUIET)
            worked = begun.success(work, [*inputs, self.knobs], outputs, **more)
            for ended in (worked.success, worked.failure):  # `then` would only hear of a success
                ended(end, self.knobs, both, **QUIET)


# --------------------------------------------------------------------------------------- events


async def begin(knobs: Knobs, request: gr.Request, tau: float = TAU, wait: float = 0):
    """Begin a run: set the knobs as the page shows them; Run off, Stop on. The run stops when its visitor
    leaves, and when they start another.

    Raises:
        gr.Error: if their last run does not stop in time. The page does not show it; see `refuse_second`.
    """
    await _take_over(knobs)
    knobs.tau, knobs.wait, knobs.stopped = tau, wait, False
    at_leaving(request, stop, knobs)
    return gr.Button(interactive=False), gr.Button(interactive=True)


async def _take_over(knobs: Knobs) -> None:
    """Stop the current run, if there is one, and wait for its end. If it does not stop in time, it goes on.

    This runs in the server's event loop, so it blocks no thread, and of two runs that begin together only
    one gets through.
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
    """After `begin` has failed."""
    gr.Warning(SECOND)


def refuse_crowd() -> None:
    """
    Raises:
        gr.Error: if too many visitors wait. Gradio would raise it too late to reset the buttons.
    """
    app = LocalContext.blocks.get(None)
    if app and len(app._queue) >= LIMITS.waiting:
        told = f"{LIMITS.waiting} visitors wait already, which is the limit here. Try again in a minute."
        raise gr.Error(told, print_exception=False)


def end(knobs: Knobs):
    """End a run: Run on, Stop off."""
    knobs.running = False
    return gr.Button(interactive=True), gr.Button(interactive=False)


def stop(knobs: Knobs) -> None:
    knobs.stopped = True


def set_tau(knobs: Knobs, tau: float) -> None:
    knobs.tau = tau


def set_wait(knobs: Knobs, wait: float) -> None:
    knobs.wait = wait


def in_queue(work: Callable[..., Iterator], outputs: int, queue: Queue = QUEUE) -> Callable[..., Iterator]:
    """Make a handler that waits in a queue, where a visitor can stop, unlike in Gradio's. It has one output
    more than `work`, the last: the visitor's place and estimated wait.

    work: a generator function of some inputs and, the last, a `Board`, with so many outputs.
    """
    still = [gr.skip()] * outputs

    def steps(*inputs: Any) -> Iterator[list]:
        board: Board = inputs[-1]
        with queue.ticket() as ticket:
            while ahead := queue.ahead(ticket, LOOK):
                if board.stopped:
                    yield [*still, "Stopped before it began."]
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
    """Give the results; a ValueError becomes a warning, and `nothing` the last result."""
    try:
        yield from results
    except ValueError as error:
        warn(error)
        yield nothing


def warn(error: ValueError) -> None:
    gr.Warning(html.escape(sentence(error)))
