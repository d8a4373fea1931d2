"""Who goes first: what visitors wait for, then long work such as trainings, then the background.

Long work waits a little for what is short, and goes on all the same. The background has the machine only
while nothing runs for a visitor.
"""

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

PATIENCE = 0.25  # seconds that the background waits for its turn before it says so
GIVES_WAY = 3.0  # seconds that a step of long work waits for visitors, at most
WAITING = object()  # a step that there was no time for
_END = object()


class Idle:
    """Who may compute: visitors at any time, the background a short step at a time while there are none."""

    def __init__(self):
        self._changed = threading.Condition()
        self._visitors = self._long = 0
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
    def long(self) -> Iterator[None]:
        """Something long runs for a visitor: no step of the background begins, and visits need not wait
        for it. It asks `give_way` before each of its own steps."""
        with self._changed:
            self._long += 1
            self._changed.wait_for(lambda: not self._stepping)
        try:
            yield
        finally:
            with self._changed:
                self._long -= 1
                self._changed.notify_all()

    def give_way(self, patience: float) -> bool:
        """Wait until no visit is going on, or for so many seconds; whether none is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._visitors, patience)

    @contextmanager
    def step(self, patience: float | None = None) -> Iterator[bool]:
        """A step of the background: whether there may be one. Waits until nothing runs, or for so many
        seconds."""
        with self._changed:
            free = self._changed.wait_for(self._is_free, patience)
            self._stepping = self._stepping or free
        try:
            yield free
        finally:
            if free:
                with self._changed:
                    self._stepping = False
                    self._changed.notify_all()

    def _is_free(self) -> bool:
        return not (self._visitors or self._long or self._stepping)


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


def giving_way(work: Callable[..., Iterator]) -> Callable[..., Iterator]:
    """A generator function that is long work for a visitor and gives way before each of its steps."""

    @functools.wraps(work)
    def steps(*arguments, **more):
        with IDLE.long(), closing(work(*arguments, **more)) as results:
            while True:
                IDLE.give_way(GIVES_WAY)
                if (result := next(results, _END)) is _END:
                    return
                yield result

    return steps
