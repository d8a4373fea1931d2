"""Daemon threads that run models."""

import atexit
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

LONGEST = 10.0  # seconds that the end of the process waits for all of them

_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def start(work: Callable[..., Any], *arguments: Any) -> None:
    """Run `work` in a daemon thread, for which the end of the process waits.

    A thread that is inside torch while Python shuts down would abort the process.
    """
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    _threads.add(thread)
    thread.start()


@atexit.register
def _wait() -> None:
    end = time.monotonic() + LONGEST
    for thread in list(_threads):
        thread.join(max(0.0, end - time.monotonic()))
