"""Queues for the long work of visitors, who can leave them, unlike Gradio's."""

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import gradio as gr

from mars_demo.core.limits import LIMITS
from mars_demo.ui.hosting.errors import or_warn
from mars_demo.ui.hosting.shared_state import SharedState

POLL = 0.5  # seconds between two messages to a visitor in the queue
TYPICAL = 20.0  # the expected seconds of the first work in a queue
NEWEST = 0.3  # weight of the latest work in the moving average of expected seconds


class Queue:
    """A first-come, first-served queue."""

    def __init__(self):
        self._changed = threading.Condition()
        self._tickets: list[object] = []
        self._expected = TYPICAL
        self._since = 0.0

    @contextmanager
    def ticket(self) -> Iterator[object]:
        """Yield a ticket at the end of the queue; it is removed when the context ends.

        Raises:
            ValueError: if the queue is full.
        """
        ticket = object()
        with self._changed:
            if len(self._tickets) > LIMITS.waiting:
                raise ValueError(f"The queue is full: {LIMITS.waiting} visitors are waiting.")
            self._tickets.append(ticket)
            if self._tickets[0] is ticket:
                self._since = time.monotonic()
        try:
            yield ticket
        finally:
            with self._changed:
                if self._tickets[0] is ticket:
                    self._expected += NEWEST * (time.monotonic() - self._since - self._expected)
                    self._since = time.monotonic()
                self._tickets.remove(ticket)
                self._changed.notify_all()

    def ahead(self, ticket: object, patience: float = 0.0) -> int:
        """Return the number of tickets ahead of a ticket, after waiting up to `patience` seconds for 0."""
        with self._changed:
            self._changed.wait_for(lambda: self._tickets[0] is ticket, patience)
            return self._tickets.index(ticket)

    def seconds(self, ahead: int) -> float:
        """Return the estimated wait of a visitor with `ahead` others before them."""
        passed = min(time.monotonic() - self._since, self._expected)
        return max(1.0, ahead * self._expected - passed)


QUEUE = Queue()


def in_queue(work: Callable[..., Iterator], outputs: int, queue: Queue = QUEUE) -> Callable[..., Iterator]:
    """Return a handler that runs `work` after waiting in a queue.

    It has one more output than `work`, the last: the visitor's place in the queue and estimated wait.

    work: a generator function with `outputs` outputs; its last input is a `SharedState`.
    """
    still = [gr.skip()] * outputs

    def steps(*inputs: Any) -> Iterator[list]:
        shared: SharedState = inputs[-1]
        with queue.ticket() as ticket:
            while ahead := queue.ahead(ticket, POLL):
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
