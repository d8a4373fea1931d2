"""Clean-up after visitors who leave: their runs stop, and their data is deleted."""

import threading
from collections.abc import Callable
from typing import Any

import gradio as gr

SESSIONS = 4000  # sessions with pending clean-up calls; beyond that, the oldest count as gone

_lock = threading.Lock()
_calls: dict[str, dict[tuple, None]] = {}  # by session; ordered, without duplicates


def at_leaving(request: gr.Request, call: Callable, *arguments: Any) -> None:
    """Register a call for when the visitor of this request leaves, reloads or loses the connection.

    Equal calls are made once. A request without a session is ignored.
    """
    if request.session_hash:
        with _lock:
            _calls.setdefault(request.session_hash, {})[call, *arguments] = None
            oldest = next(iter(_calls)) if len(_calls) > SESSIONS else None
        if oldest:  # probably a client that sends no heartbeats
            leave(oldest)


def leave(session: str) -> None:
    """Make the calls that were registered for a session."""
    with _lock:
        calls = _calls.pop(session, {})
    for call, *arguments in calls:
        call(*arguments)
