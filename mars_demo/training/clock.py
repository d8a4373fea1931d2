"""The clock of a training that ends after a given time."""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """The time of a training, from the end of its first step unless it is started before.

    The first step compiles, and its learning rate is 0.

    now: returns the time in seconds.
    agreed: the time on which several processes agree, because they must end at the same step.
    """

    def __init__(self, minutes: float, now: Callable[[], float] = time.monotonic):
        self.total, self._now, self._before, self._since = 60 * minutes, now, 0.0, None
        self.agreed: float | None = None

    def resume(self, elapsed: float) -> None:
        """Stop the clock at the seconds of an interrupted run."""
        self._before, self._since = elapsed, None

    def start(self) -> None:
        """Start the clock, unless it runs."""
        if self._since is None:
            self._since = self._now()

    @property
    def elapsed(self) -> float:
        return self._before + (0.0 if self._since is None else self._now() - self._since)

    @property
    def share(self) -> float:
        """Return the elapsed share of the time, from 0 to 1."""
        return min(1.0, (self.elapsed if self.agreed is None else self.agreed) / self.total)
