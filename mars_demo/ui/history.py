"""What a visitor's next race continues."""

import weakref
from collections.abc import Mapping

from mars_demo.limits import refuse_long
from mars_demo.models.messages import Message, checked, user

KEPT = 8  # visitors whose caches are kept, those who raced last


class History:
    """The messages so far and a cache for each mode. Handlers change it in place."""

    def __init__(self):
        self.messages: list[Message] = []  # without the system prompt, which is among the controls
        self._told = 0  # the number of what the page told last
        self._caches = {}

    def put(self, messages) -> str:
        """Continue from these messages, which come from a browser. Without any, nothing is kept.

        Returns: their system prompt, "" if there is none.

        Raises:
            ValueError: if they are no conversation with an answer at its end, or longer than one may be.
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
        """Return whether a numbered message of the page is newer than those before it."""
        news = isinstance(number, int) and number > self._told
        if news:
            self._told = number
        return news

    def after(self, system: str) -> list[Message]:
        """Return the messages before the next prompt, the system prompt first."""
        opening = [{"role": "system", "content": system}] if system.strip() else []
        return [*opening, *self.messages]

    def cache(self, mode: str):
        """Return the cache that a mode's lane continues with."""
        from mars_demo.decoding.engine import TextCache  # imports torch, which the page is there before

        _newest(self)
        return self._caches.setdefault(mode, TextCache())

    def forget(self) -> None:
        self._caches = {}


_recent: list[weakref.ref] = []  # histories with caches, the newest last


def _newest(history: History) -> None:
    """Mark a history as the newest; drop the caches of those that are too old."""
    others = [ref for ref in _recent if ref() not in (None, history)]
    for ref in others[: -(KEPT - 1)]:
        if old := ref():
            old.forget()
    _recent[:] = [*others[-(KEPT - 1) :], weakref.ref(history)]
