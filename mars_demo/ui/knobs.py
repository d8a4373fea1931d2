"""The settings that a visitor changes while models run, and the begin and the end of such a run."""

import asyncio
import time

import gradio as gr

from mars_demo.core.acceptance import TAU
from mars_demo.ui.hosting.shared_state import Number, SharedState
from mars_demo.ui.hosting.visitors import at_leaving

POLL = 0.1  # seconds between two checks of a setting
PATIENCE = 20  # seconds within which a run must stop for its visitor's next one
NOT_STOPPED = "Your last run has not stopped yet: stop it, or wait until it has ended."


class Knobs(SharedState):
    """The settings that a visitor may change while models run."""

    tau = Number(TAU)
    wait = Number(0)  # ms of slow motion after each forward
    running = Number(False)  # from the start of a run until the page has been notified of its end

    def pause(self) -> None:
        """Sleep for the slow-motion pause; a changed pause or a stop takes effect within `POLL`."""
        started = time.monotonic()
        while not self.stopped and (left := self.wait / 1000 - (time.monotonic() - started)) > 0:
            time.sleep(min(left, POLL))


async def begin(knobs: Knobs, request: gr.Request, tau: float = TAU, wait: float = 0):
    """Begin a run: set the knobs to the page's values, disable Run and enable Stop.

    The run stops when its visitor leaves or starts another.

    Raises:
        gr.Error: if their last run does not stop in time; `warn_not_stopped` shows it.
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
            raise gr.Error(NOT_STOPPED, print_exception=False)
        knobs.stopped = True
        await asyncio.sleep(POLL)
    knobs.running = True


def warn_not_stopped() -> None:
    """Warn that the last run has not stopped, after `begin` has failed."""
    gr.Warning(NOT_STOPPED)


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
