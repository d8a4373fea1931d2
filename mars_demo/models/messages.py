"""The messages of a conversation."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# Role and content. In a record, `mode` is that of the run which an answer comes from; in training, a truthy
# `cut` says that the content has no end.
Message = dict[str, str]
KEYS = ("role", "content", "mode")
ROLES = ("system", "user", "assistant")


class Encoded(NamedTuple):
    """A prompt that is token ids already, for whoever has templates or cuts of their own, and its text."""

    ids: list[int]
    text: str


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def checked(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return a conversation that a model can continue: perhaps a system message, then user and assistant in
    turn, the user last. Without what else a message may hold.

    Raises:
        ValueError: if it is none.
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
            raise ValueError(f"Message {number} has half of a character in it (a lone surrogate).")
        if number > offset and role != ("user", "assistant")[(number - offset - 1) % 2]:
            raise ValueError(
                f"Message {number} is out of turn: after at most one system message, user and assistant "
                "take turns, the user first."
            )
    return [
        {key: message[key] for key in KEYS if isinstance(message.get(key), str)} for message in messages
    ]
