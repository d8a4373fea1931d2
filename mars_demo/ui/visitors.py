"""What is to be done when a visitor leaves: runs stop, and what was kept for them alone is dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import gradio as gr

SESSIONS = 4000  # of which the leaving is awaited; with more, the oldest count as gone

_lock = threading.Lock()
_calls: dict[str, dict[tuple, None]] = {}  # by session, in order and each once


def at_leaving(request: gr.Request, call: Callable, *arguments: Any) -> None:
    """Make a call when the visitor of this request leaves, reloads or loses the connection. The same call
    with the same arguments is made once.

    Requests from elsewhere than a page have no session, and nothing is known of their leaving.
    """
    if request.session_hash:
        with _lock:
            _calls.setdefault(request.session_hash, {})[call, *arguments] = None
            oldest = next(iter(_calls)) if len(_calls) > SESSIONS else None
        if oldest:  # a client that asks for things but never says that it is there
            leave(oldest)


def leave(session: str) -> None:
    """A visitor has left."""
    with _lock:
        calls = _calls.pop(session, {})
    for call, *arguments in calls:
        call(*arguments)
