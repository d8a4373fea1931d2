"""The messages of a conversation."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# Role and content. In a record, `mode` is the mode of the run that an answer comes from; in training, a
# truthy `cut` marks truncated content.
Message = dict[str, str]
KEYS = ("role", "content", "mode")
ROLES = ("system", "user", "assistant")


class Encoded(NamedTuple):
    """An already encoded prompt and its text, for callers with their own templates or truncation."""

    ids: list[int]
    text: str


def user(text: str) -> Message:
    """Return a user message."""
    return {"role": "user", "content": text}


def checked(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return the messages of a conversation without unknown keys, after checking them.

    A valid conversation has an optional system message, then user and assistant in turn, the user last.

    Raises:
        ValueError: if the conversation is not valid.
    """
    if not messages or messages[-1].get("role") != "user":
        raise ValueError("The last message of a conversation must be the user's.")
    turns = messages[1:] if messages[0].get("role") == "system" else messages
    offset = len(messages) - len(turns)
    for number, message in enumerate(messages, start=1):
        role, content = message.get("role"), message.get("content")
        if role not in ROLES:
            raise ValueError(f"Message {number} has the role {role!r}. Choose from {', '.join(ROLES)}.")
        if not isinstance(content, str) or not content.strip():
            raise ValueError(f"Message {number} is empty; every message needs a text.")
        if any("\ud800" <= character <= "\udfff" for character in content):
            raise ValueError(f"Message {number} contains half of a character (a lone surrogate).")
        if number > offset and role != ("user", "assistant")[(number - offset - 1) % 2]:
            raise ValueError(
                f"Message {number} is out of turn: after at most one system message, user and assistant "
                "take turns, the user first."
            )
    return [
        {key: message[key] for key in KEYS if isinstance(message.get(key), str)} for message in messages
    ]
