"""The line for long work: one piece at a time for all visitors, in the order in which they came."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import gradio as gr

from mars_demo.limits import LIMITS
from mars_demo.ui.board import Board
from mars_demo.ui.controls import or_warn

PATIENCE = 0.5  # seconds between two messages to a visitor who waits
TYPICAL = 20.0  # seconds that a piece of work is expected to take before any has been done
NEW = 0.3  # weight of the newest piece in what the next one is expected to take


class Line:
    """Who waits for their turn, the first one of them at work."""

    def __init__(self):
        self._changed = threading.Condition()
        self._tickets: list[object] = []
        self._expected = TYPICAL
        self._since = 0.0

    @contextmanager
    def place(self) -> Iterator[object]:
        """A ticket, at the end of the line, for as long as this lasts.

        Raises:
            ValueError: if too many wait.
        """
        ticket = object()
        with self._changed:
            if len(self._tickets) > LIMITS.waiting:
                raise ValueError(f"{LIMITS.waiting} visitors wait already, which is the limit here.")
            self._tickets.append(ticket)
            if self._tickets[0] is ticket:
                self._since = time.monotonic()
        try:
            yield ticket
        finally:
            with self._changed:
                worked = self._tickets[0] is ticket
                self._tickets.remove(ticket)
                if worked:
                    took = time.monotonic() - self._since
                    self._expected += NEW * (took - self._expected)
                    self._since = time.monotonic()
                    self._changed.notify_all()

    def ahead(self, ticket: object, patience: float = 0.0) -> int:
        """How many are ahead. Waits so many seconds for there to be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._tickets[0] is ticket, patience)
            return self._tickets.index(ticket)

    def words(self, ahead: int) -> str:
        """For somebody with so many ahead."""
        passed = min(time.monotonic() - self._since, self._expected)
        others = "One long run is" if ahead == 1 else f"{ahead} long runs are"
        left = max(1, ahead * self._expected - passed)
        return f"{others} ahead of yours: about {left:.0f} seconds."


LINE = Line()


def in_line(work: Callable[..., Iterator], outputs: int) -> Callable[..., Iterator]:
    """A handler with one output more than `work`, the last: what who waits in the line is told.

    work: a generator function of some inputs and, the last, a `Board`, with so many outputs.
    """
    still = [gr.skip()] * outputs

    def steps(*asked: Any) -> Iterator[list]:
        board: Board = asked[-1]
        with LINE.place() as ticket:
            while ahead := LINE.ahead(ticket, PATIENCE):
                if board.stopped:
                    yield [*still, "Stopped before it began."]
                    return
                yield [*still, LINE.words(ahead)]
            yield [*still, ""]
            with closing(work(*asked)) as results:
                for result in results:
                    yield [*(result if outputs > 1 else [result]), gr.skip()]

    @functools.wraps(work)
    def handler(*asked: Any) -> Iterator[list]:
        yield from or_warn(steps(*asked), [*still, ""])

    return handler
