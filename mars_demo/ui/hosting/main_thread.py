"""Work for the main thread: on ZeroGPU, only its torch modes can load models."""

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class MainThread:
    """The main thread of an app.

    While it serves, `run` computes there; before that, and in forked processes, in the caller's thread.
    """

    def __init__(self):
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], Future]] = queue.SimpleQueue()
        self._serving: tuple[int, int] | None = None  # process and thread

    def run(self, work: Callable[[], Any]) -> Any:
        """Return what `work` returns, or raise what it raises."""
        process, thread = self._serving or (None, None)
        if process != os.getpid() or thread == threading.get_ident():
            return work()
        future: Future = Future()
        self._work.put((work, future))
        return future.result()

    def serve(self, wait: float) -> None:
        """Do the next piece of work in this thread, if one comes within `wait` seconds."""
        self._serving = os.getpid(), threading.get_ident()
        try:
            work, future = self._work.get(timeout=wait)
        except queue.Empty:
            return
        try:
            future.set_result(work())
        except Exception as error:  # raised again in the caller's thread
            future.set_exception(error)


MAIN = MainThread()
