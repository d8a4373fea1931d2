"""What happens when a visitor leaves: their runs stop, and what was kept for them is dropped."""

import threading
from collections.abc import Callable
from typing import Any

import gradio as gr

SESSIONS = 4000  # whose departure triggers cleanup; with more, the oldest count as gone

_lock = threading.Lock()
_calls: dict[str, dict[tuple, None]] = {}  # by session, in order and each once


def at_leaving(request: gr.Request, call: Callable, *arguments: Any) -> None:
    """Make a call when the visitor of this request leaves, reloads or loses the connection; the same call
    with the same arguments once. Requests without a session have nobody who leaves."""
    if request.session_hash:
        with _lock:
            _calls.setdefault(request.session_hash, {})[call, *arguments] = None
            oldest = next(iter(_calls)) if len(_calls) > SESSIONS else None
        if oldest:  # a client that asks for things but never says that it is there
            leave(oldest)


def leave(session: str) -> None:
    with _lock:
        calls = _calls.pop(session, {})
    for call, *arguments in calls:
        call(*arguments)
