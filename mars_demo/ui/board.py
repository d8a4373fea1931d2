"""Numbers that a visitor changes while something runs, perhaps in another process."""

from __future__ import annotations

import math
import mmap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SLOTS, WIDTH = 64, 8  # boards that are shared at a time, and the numbers that one may have

# Made when the app starts: processes that are forked from it later see the same memory.
_memory = memoryview(mmap.mmap(-1, SLOTS * WIDTH * 8)).cast("d")
_free = list(range(SLOTS))
_lock = threading.Lock()


class Number:
    """A number of a board, as an attribute of it."""

    def __init__(self, default: float):
        self.default = default

    def __set_name__(self, owner: type[Board], name: str):
        if "defaults" not in vars(owner):  # a class of boards begins with the numbers of its base
            owner.defaults = [*owner.defaults]
        self.place = len(owner.defaults)
        owner.defaults.append(self.default)

    def __get__(self, board: Board | None, owner: type[Board]) -> Any:
        return self if board is None else board._numbers[self.place]

    def __set__(self, board: Board, value: float) -> None:
        board._numbers[self.place] = value


class Board:
    """What a visitor may change while something runs. Handlers change it in place.

    While it is `shared`, its numbers lie in memory that all processes of the app see, and a pickle of it
    names the place: what is unpickled in another process is the same board.

    until: the moment of `time.monotonic` at which it counts as stopped.
    """

    defaults: list[float] = []
    until = Number(math.inf)
    _halted = Number(False)

    def __init__(self):
        self._numbers: Any = [*self.defaults]
        self._slot: int | None = None

    @property
    def stopped(self) -> bool:
        return bool(self._halted) or self.is_over

    @stopped.setter
    def stopped(self, value: bool) -> None:
        self._halted = value

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.until

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Lay the numbers into shared memory for as long as this lasts.

        Raises:
            ValueError: if there is no room.
        """
        with _lock:
            if not _free:
                raise ValueError(
                    f"{SLOTS} runs are going on, which is the limit here. Try again in a minute."
                )
            self._slot = _free.pop()
        private, self._numbers = self._numbers, _numbers_of(self._slot)
        for place, number in enumerate(private):
            self._numbers[place] = number
        try:
            yield
        finally:
            self._numbers = [*self._numbers[: len(self.defaults)]]
            with _lock:
                _free.append(self._slot)
                self._slot = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | ({} if self._slot is None else {"_numbers": None})

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self._slot is not None:
            self._numbers = _numbers_of(self._slot)


def _numbers_of(slot: int) -> memoryview:
    return _memory[slot * WIDTH : (slot + 1) * WIDTH]
