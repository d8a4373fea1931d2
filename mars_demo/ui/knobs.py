"""The settings that a visitor changes while models run, and the begin and the end of such a run."""

import asyncio
import time

import gradio as gr
from gradio.context import LocalContext

from mars_demo.core.acceptance import TAU
from mars_demo.core.limits import LIMITS
from mars_demo.ui.hosting.shared_state import Number, SharedState

POLL = 0.1  # seconds between two checks of a setting
FORWARDS_PER_SECOND = 8  # of a race that its visitor watches; fewer if forwards take longer
PATIENCE = 20  # seconds within which a run must stop for its visitor's next one


class Knobs(SharedState):
    """The settings that a visitor may change while models run."""

    tau = Number(TAU)
    watched = Number(False)  # whether forwards are paced, so that the visitor can watch the model write
    running = Number(False)  # from the start of a run until the page has been notified of its end

    @property
    def period(self) -> float:
        """Return the least number of seconds per forward."""
        return self.watched / FORWARDS_PER_SECOND

    def pause(self, ms: float = 0) -> bool:
        """Sleep for the rest of the period after a forward of `ms`; return whether there was one.

        Changes take effect within `POLL`.
        """
        started, has_slept = time.monotonic() - ms / 1000, False
        while not self.stopped and (left := self.period - (time.monotonic() - started)) > 0:
            time.sleep(min(left, POLL))
            has_slept = True
        return has_slept

    def leave(self) -> None:
        """Stop the run of a visitor who has left."""
        self.stopped = True


async def begin(knobs: Knobs, tau: float = TAU, watched: bool = False):
    """Stop the last run and begin another: set the knobs to the page's values, disable Run, enable Stop.

    This coroutine runs in the server's event loop, so it blocks no thread, and only one of two runs that
    begin together continues.

    Raises:
        gr.Error: if Gradio's queue is full, whose own check comes too late to reset the buttons, or if the
            last run does not stop in time; then it goes on.
    """
    app = LocalContext.blocks.get(None)
    if app and len(app._queue) >= LIMITS.waiting:
        message = f"The queue is full: {LIMITS.waiting} visitors are waiting. Try again in a minute."
        raise gr.Error(message, print_exception=False)
    was_stopped, given_up = knobs.stopped, time.monotonic() + PATIENCE
    while knobs.running:
        if time.monotonic() > given_up:
            knobs.stopped = was_stopped
            message = "Your last run has not stopped yet: stop it, or wait until it has ended."
            raise gr.Error(message, print_exception=False)
        knobs.stopped = True
        await asyncio.sleep(POLL)
    knobs.running, knobs.stopped = True, False
    knobs.tau, knobs.watched = tau, watched
    return gr.Button(interactive=False), gr.Button(interactive=True)


def end(knobs: Knobs):
    """End a run: enable Run and disable Stop."""
    knobs.running = False
    return gr.Button(interactive=True), gr.Button(interactive=False)


def stop(knobs: Knobs) -> None:
    knobs.stopped = True


def set_tau(knobs: Knobs, tau: float) -> None:
    knobs.tau = tau


def set_watched(knobs: Knobs, watched: bool) -> None:
    knobs.watched = watched
