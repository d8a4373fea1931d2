"""A place where forwards wait, so that a test acts in the middle of a run without racing against it."""

import threading

GUARD = 300  # seconds after which a forward that nobody lets through fails instead of hanging


class Gate:
    """Holds the forwards of a module once `free` of them have passed, until the gate is opened."""

    def __init__(self, module, free: int = 4):
        self._free, self._lock, self._opened = free, threading.Lock(), threading.Event()
        self._held = threading.Event()
        self._hook = module.register_forward_pre_hook(self._pass)

    def _pass(self, *_) -> None:
        with self._lock:
            self._free -= 1
            if self._free >= 0:
                return
        self._held.set()
        assert self._opened.wait(GUARD), "the gate was never opened"

    def wait_until_held(self) -> None:
        assert self._held.wait(GUARD), "no forward came to the gate"

    def open(self) -> None:
        """Let through what waits and all that follows."""
        self._opened.set()

    def remove(self) -> None:
        self.open()
        self._hook.remove()
