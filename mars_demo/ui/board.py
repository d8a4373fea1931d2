"""Numbers that a visitor changes while something runs, perhaps in another process."""

from __future__ import annotations

import copy
import math
import mmap
import time
import weakref
from collections import deque
from typing import Any

BOARDS, WIDTH = 1 << 16, 8  # boards of all visitors, more than their sessions can hold; numbers of each

# Mapped when the app starts: processes that are forked from it later see the same memory.
_memory = memoryview(mmap.mmap(-1, BOARDS * WIDTH * 8)).cast("d")
_free = deque(range(BOARDS))


class Number:
    """A number of a board, as an attribute of it."""

    def __init__(self, default: float):
        self.default = default

    def __set_name__(self, owner: type[Board], name: str):
        self.place = [*_numbers(owner)].index(name)

    def __get__(self, board: Board | None, owner: type[Board]) -> Any:
        return self if board is None else _memory[board._slot * WIDTH + self.place]

    def __set__(self, board: Board, value: float) -> None:
        _memory[board._slot * WIDTH + self.place] = value


def _numbers(owner: type) -> dict[str, Number]:
    """Return the numbers of a class of boards by name, those of its bases first."""
    attributes = (pair for one in reversed(owner.__mro__) for pair in vars(one).items())
    return {name: value for name, value in attributes if isinstance(value, Number)}


class Board:
    """What a visitor may change while something runs. Handlers change it in place.

    What is unpickled of a board, in whichever process, is the same board; a deep copy is another one.

    until: the moment of `time.monotonic` at which it counts as stopped.
    """

    until = Number(math.inf)
    _halted = Number(False)

    def __init__(self):
        self._slot = _free.popleft()
        weakref.finalize(self, _free.append, self._slot)
        for number in _numbers(type(self)).values():
            number.__set__(self, number.default)

    def __deepcopy__(self, memo: dict) -> Board:
        copied = type(self)()
        for name in _numbers(type(self)):
            setattr(copied, name, getattr(self, name))
        others = {name: value for name, value in vars(self).items() if name != "_slot"}
        vars(copied).update(copy.deepcopy(others, memo))
        return copied

    @property
    def stopped(self) -> bool:
        return bool(self._halted) or self.is_over

    @stopped.setter
    def stopped(self, value: bool) -> None:
        self._halted = value

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.until
