"""Work in the background that gives way: it has the machine only while nothing runs for a visitor."""

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

PATIENCE = 0.25  # seconds that the background waits for its turn before it says so
WAITING = object()  # a step that there was no time for
_END = object()


class Idle:
    """Who may compute: visitors at any time, the background a short step at a time while there are none."""

    def __init__(self):
        self._changed = threading.Condition()
        self._visitors = 0
        self._stepping = False

    @contextmanager
    def visit(self) -> Iterator[None]:
        """Something runs for a visitor. Waits for the end of the background's step, and no step begins."""
        with self._changed:
            self._visitors += 1
            self._changed.wait_for(lambda: not self._stepping)
        try:
            yield
        finally:
            with self._changed:
                self._visitors -= 1
                self._changed.notify_all()

    @contextmanager
    def step(self, patience: float | None = None) -> Iterator[bool]:
        """A step of the background: whether there may be one. Waits until nothing runs, or for so many
        seconds."""
        with self._changed:
            free = self._changed.wait_for(lambda: not self._visitors and not self._stepping, patience)
            self._stepping = self._stepping or free
        try:
            yield free
        finally:
            if free:
                with self._changed:
                    self._stepping = False
                    self._changed.notify_all()


IDLE = Idle()


def visiting(work: Callable) -> Callable:
    """A function or a generator function that runs for a visitor."""

    @functools.wraps(work)
    def call(*arguments, **more):
        with IDLE.visit():
            return work(*arguments, **more)

    @functools.wraps(work)
    def steps(*arguments, **more):
        with IDLE.visit():
            yield from work(*arguments, **more)

    return steps if inspect.isgeneratorfunction(work) else call


def stepping(work: Callable[..., Iterator]) -> Callable[..., Iterator]:
    """A generator function each of whose steps is one of the background. It gives `WAITING` every now and
    then while something runs for a visitor, so that it can be stopped then too."""

    @functools.wraps(work)
    def steps(*arguments, **more):
        with closing(work(*arguments, **more)) as results:
            while True:
                with IDLE.step(PATIENCE) as mine:
                    result = next(results, _END) if mine else WAITING
                if result is _END:
                    return
                yield result

    return steps
