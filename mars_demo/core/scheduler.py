"""The scheduler of all forwards in this process.

Each forward takes a turn, and the thread that has waited longest is next. Concurrent runs therefore share
the machine fairly, and a clock that starts within a turn counts one forward alone. There are three classes
of work. Races and other short work of visitors take turns. Long work, such as training, waits briefly for
races before each of its steps. Background work makes a step only while nothing runs for a visitor.
"""

import functools
import inspect
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

RACE, LONG, BACKGROUND = "race", "long", "background"  # the classes of work
RACE_WAIT = 3.0  # the most seconds that a step of long work waits for races
PATIENCE = 0.25  # seconds that background work waits for a turn before it yields `WAITING`
WAITING = object()  # the result of a step that background work could not make
_END = object()


class Scheduler:
    """A fair lock for forwards, with classes of work. Nested turns of one thread count as one turn."""

    def __init__(self):
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._taken = False
        self._thread = threading.local()
        self._running: Counter[str] = Counter()  # running work by class
        self._changed = threading.Condition()

    # --------------------------------------------------------------------------------------- turns

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn and keep it inside the context."""
        if getattr(self._thread, "has_turn", False):
            yield
            return
        self._take()
        self._thread.has_turn = True
        try:
            yield
        finally:
            self._thread.has_turn = False
            self._pass_on()

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
        """Count work of a class as running inside the context."""
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
        """Wait as the class of a step requires; yield whether it may run. A background step is a turn."""
        if kind == BACKGROUND:
            if self._without(RACE, LONG, patience=PATIENCE):
                with self.turn():
                    yield self._without(RACE, LONG, patience=0)  # work may have started meanwhile
            else:
                yield False
            return
        if kind == LONG:
            self._without(RACE, patience=RACE_WAIT)
        yield True

    def _without(self, *kinds: str, patience: float) -> bool:
        """Wait at most `patience` seconds until no work of these classes runs; return whether none does."""
        with self._changed:
            return self._changed.wait_for(lambda: not any(self._running[kind] for kind in kinds), patience)

    def scheduled(self, work: Callable, kind: str) -> Callable:
        """Wrap a function, or for long and background work a generator function, as work of a class.

        A background step that cannot run yields `WAITING`, so that the caller can stop the work meanwhile.
        """

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
