"""The conversation that a visitor's next race continues."""

import threading
import weakref
from collections.abc import Mapping

from mars_demo.core.limits import refuse_long
from mars_demo.core.messages import Message, checked, user
from mars_demo.models.runtime.engine import TextCache

KEPT = 8  # visitors whose caches are kept: those who raced most recently


class History:
    """The messages so far and a KV cache for each mode. Handlers change it in place."""

    def __init__(self):
        self.messages: list[Message] = []  # without the system prompt, which is among the controls
        self._newest = 0  # the highest number of a message from the page
        self._caches = {}

    def put(self, messages) -> str:
        """Continue from these messages of a browser, or begin anew without any; return their system prompt.

        Raises:
            ValueError: if they are not a conversation that ends with an answer, or are too long.
        """
        if not isinstance(messages, list) or not all(isinstance(message, Mapping) for message in messages):
            raise ValueError("A conversation is a list of messages, each with a role and a content.")
        *before, _ = checked([*messages, user("what comes next")])
        refuse_long(*(message["content"] for message in before))
        system = [message["content"] for message in before if message["role"] == "system"]
        self.messages = before[len(system) :]
        if not self.messages:
            self.forget()
        return "".join(system)

    def is_news(self, number) -> bool:
        """Return whether a numbered message of the page is newer than all before it."""
        news = isinstance(number, int) and number > self._newest
        if news:
            self._newest = number
        return news

    def after(self, system: str) -> list[Message]:
        """Return the messages before the next prompt, beginning with the system prompt."""
        opening = [{"role": "system", "content": system}] if system.strip() else []
        return [*opening, *self.messages]

    def cache(self, mode: str):
        """Return the KV cache that a mode's lane continues with."""
        _newest(self)
        return self._caches.setdefault(mode, TextCache())

    def forget(self) -> None:
        self._caches = {}


_recent = weakref.WeakKeyDictionary()  # histories with caches, the newest last
_lock = threading.Lock()  # handlers run in several threads


def _newest(history: History) -> None:
    """Mark a history as the most recent; drop the caches of all but the `KEPT` most recent."""
    with _lock:
        _recent.pop(history, None)
        _recent[history] = None
        for old in [*_recent][:-KEPT]:
            del _recent[old]
            old.forget()
