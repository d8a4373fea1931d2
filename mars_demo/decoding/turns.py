"""Turns on one machine: whatever computes in this process takes a turn for every forward, in order.

Runs that go on at once then share the machine forward by forward, in a fair order, and none slows down
another's forward: a clock that starts within a turn counts that forward alone.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """One at a time, whoever has waited longest first. A turn within a turn of the same thread is part of
    it."""

    def __init__(self):
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._taken = False
        self._mine = threading.local()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Waits for its turn and has it for as long as this lasts."""
        if getattr(self._mine, "depth", 0):
            yield
            return
        started = time.perf_counter()
        self._take()
        self._mine.waited = self.waited + time.perf_counter() - started
        self._mine.depth = 1
        try:
            yield
        finally:
            self._mine.depth = 0
            self._pass_on()

    @property
    def waited(self) -> float:
        """Seconds that this thread has waited for its turns, of all its life."""
        return getattr(self._mine, "waited", 0.0)

    def _take(self) -> None:
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            gate = threading.Lock()
            gate.acquire()
            self._waiting.append(gate)
        gate.acquire()  # until it is passed on to this thread

    def _pass_on(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False


TURNS = Turns()


class Clock:
    """The seconds of what runs on it, the waits for turns not counted."""

    def __init__(self):
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        started = time.perf_counter() - TURNS.waited
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - TURNS.waited - started
