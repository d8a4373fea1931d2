"""Who computes next in this process.

Whatever computes takes a turn for each forward, and the thread that has waited longest comes next. So runs
that go on at once share the machine fairly, and a clock that starts within a turn counts one forward alone.
Beyond that there are three classes of work. Races and other short work of visitors take turns. Long work,
such as a training, lets races finish before each of its steps, for a moment. Background work makes a step
only while nothing runs for a visitor.
"""

import functools
import inspect
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from mars_demo.limits import LIMITS

RACE, LONG, BACKGROUND = "race", "long", "background"  # the classes of work
GIVES_WAY = 3.0  # seconds that a step of long work waits for races, at most
PATIENCE = 0.25  # seconds that background work waits for its turn before it says so
WAITING = object()  # the result of a step that background work could not make
TYPICAL = 20.0  # seconds that work in a queue is expected to take before any has been done
NEWEST = 0.3  # weight of the newest work in what the next is expected to take
_END = object()


class Scheduler:
    """One thread at a time; a turn within a turn of the same thread is part of it."""

    def __init__(self):
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._taken = False
        self._thread = threading.local()
        self._running: Counter[str] = Counter()  # how much work of each class runs for visitors
        self._changed = threading.Condition()

    # --------------------------------------------------------------------------------------- turns

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn, and have it for as long as this lasts."""
        if getattr(self._thread, "has_turn", False):
            yield
            return
        started = time.perf_counter()
        self._take()
        self._thread.waited = self.waited + time.perf_counter() - started
        self._thread.has_turn = True
        try:
            yield
        finally:
            self._thread.has_turn = False
            self._pass_on()

    @property
    def waited(self) -> float:
        """Seconds that this thread has waited for turns since it began."""
        return getattr(self._thread, "waited", 0.0)

    def _take(self) -> None:
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            gate = threading.Lock()
            gate.acquire()
            self._waiting.append(gate)
        gate.acquire()  # until the turn is passed on to this thread

    def _pass_on(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False

    # ------------------------------------------------------------------------------------- classes

    @contextmanager
    def running(self, kind: str = RACE) -> Iterator[None]:
        """Count work of a class as running."""
        with self._changed:
            self._running[kind] += 1
        try:
            yield
        finally:
            with self._changed:
                self._running[kind] -= 1
                self._changed.notify_all()

    @contextmanager
    def step(self, kind: str) -> Iterator[bool]:
        """Let a step wait as its class does; whether it may be made. A background step is a turn."""
        if kind == BACKGROUND:
            if self._without(RACE, LONG, patience=PATIENCE):
                with self.turn():
                    yield self._without(RACE, LONG, patience=0)  # one may have begun meanwhile
            else:
                yield False
            return
        if kind == LONG:
            self._without(RACE, patience=GIVES_WAY)
        yield True

    def _without(self, *kinds: str, patience: float) -> bool:
        """Wait until no work of these classes runs, or for so many seconds; whether none does."""
        with self._changed:
            return self._changed.wait_for(lambda: not any(self._running[kind] for kind in kinds), patience)

    def scheduled(self, work: Callable, kind: str) -> Callable:
        """Make a function, or for long and background work a generator function, work of a class. In the
        background, a step that must wait gives `WAITING`, so that it can be stopped then too."""

        @functools.wraps(work)
        def call(*arguments):
            with self.running(kind):
                return work(*arguments)

        @functools.wraps(work)
        def steps(*arguments):
            with self.running(kind), closing(work(*arguments)) as results:
                while True:
                    with self.step(kind) as is_allowed:
                        result = next(results, _END) if is_allowed else WAITING
                    if result is _END:
                        return
                    yield result

        return steps if inspect.isgeneratorfunction(work) else call


SCHEDULER = Scheduler()


class Clock:
    """The seconds of what runs on it, without the waits for turns."""

    def __init__(self):
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        started = time.perf_counter() - SCHEDULER.waited
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - SCHEDULER.waited - started


class Queue:
    """Long work of several visitors, one after the other in the order in which they came."""

    def __init__(self):
        self._changed = threading.Condition()
        self._tickets: list[object] = []
        self._expected = TYPICAL
        self._since = 0.0

    @contextmanager
    def ticket(self) -> Iterator[object]:
        """A ticket at the end of the queue, for as long as this lasts.

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
                if self._tickets[0] is ticket:
                    self._expected += NEWEST * (time.monotonic() - self._since - self._expected)
                    self._since = time.monotonic()
                self._tickets.remove(ticket)
                self._changed.notify_all()

    def ahead(self, ticket: object, patience: float = 0.0) -> int:
        """Return how many are ahead of a ticket. Wait so many seconds for there to be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._tickets[0] is ticket, patience)
            return self._tickets.index(ticket)

    def seconds(self, ahead: int) -> float:
        """Return the estimated wait of a visitor with `ahead` others before them."""
        passed = min(time.monotonic() - self._since, self._expected)
        return max(1.0, ahead * self._expected - passed)
