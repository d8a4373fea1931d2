"""A gate for forwards: tests act in the middle of a run without a race condition."""

import math
import threading

GUARD = 300  # seconds after which a held forward fails instead of hanging


class Gate:
    """A gate that lets `free` forwards of a module pass and holds later ones until they are released."""

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
        assert self._held.wait(GUARD), "no forward reached the gate"

    def release(self, forwards: float) -> None:
        with self._changed:
            self._free += forwards
            self._changed.notify_all()

    def open(self) -> None:
        """Release all held and all later forwards."""
        self.release(math.inf)

    def remove(self) -> None:
        self.open()
        self._hook.remove()
