"""A place where forwards wait, so that a test acts in the middle of a run without racing against it."""

import math
import threading

GUARD = 300  # seconds after which a forward that nobody lets through fails instead of hanging


class Gate:
    """Holds the forwards of a module once `free` of them have passed, until more are let through."""

    def __init__(self, module, free: int = 4):
        self._free, self._changed, self._held = free, threading.Condition(), threading.Event()
        self._hook = module.register_forward_pre_hook(self._pass)

    def _pass(self, *_) -> None:
        with self._changed:
            if self._free <= 0:
                self._held.set()
            assert self._changed.wait_for(lambda: self._free > 0, GUARD), "the gate was never opened"
            self._free -= 1

    def wait_until_held(self) -> None:
        assert self._held.wait(GUARD), "no forward came to the gate"

    def let(self, forwards: float) -> None:
        with self._changed:
            self._free += forwards
            self._changed.notify_all()

    def open(self) -> None:
        """Let through what waits and all that follows."""
        self.let(math.inf)

    def remove(self) -> None:
        self.open()
        self._hook.remove()
