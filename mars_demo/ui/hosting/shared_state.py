"""Numbers that a visitor changes while work runs, perhaps in another process."""

from __future__ import annotations

import copy
import math
import mmap
import time
import weakref
from collections import deque
from typing import Any, ClassVar

STATES = 1 << 16  # more than all sessions can have
WIDTH = 8  # numbers per state

# Mapped when the app starts, so that processes forked later share the memory.
_memory = memoryview(mmap.mmap(-1, STATES * WIDTH * 8)).cast("d")
_free = deque(range(STATES))


class Number:
    """A descriptor for a number of a `SharedState`."""

    def __init__(self, default: float):
        self.default = default

    def __set_name__(self, owner: type[SharedState], name: str):
        self.index = len(owner.numbers)
        owner.numbers = owner.numbers | {name: self}

    def __get__(self, shared: SharedState | None, owner: type[SharedState]) -> Any:
        return self if shared is None else _memory[shared._slot * WIDTH + self.index]

    def __set__(self, shared: SharedState, value: float) -> None:
        _memory[shared._slot * WIDTH + self.index] = value


class SharedState:
    """Numbers that a visitor may change while work runs. Handlers change them in place.

    Unpickling returns the same shared state in any process; a deep copy is a new one.

    until: the time, in seconds of `time.monotonic`, from which on the state counts as stopped.
    """

    numbers: ClassVar[dict[str, Number]] = {}  # by name, those of the bases first
    until = Number(math.inf)
    _halted = Number(False)

    def __init__(self):
        self._slot = _free.popleft()
        weakref.finalize(self, _free.append, self._slot)
        for number in self.numbers.values():
            number.__set__(self, number.default)

    def __deepcopy__(self, memo: dict) -> SharedState:
        copied = type(self)()
        for name in self.numbers:
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
