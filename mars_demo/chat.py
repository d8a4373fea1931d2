"""Conversations as token ids. What people typed never turns into a special token."""

from __future__ import annotations

import re
from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

Message = dict[str, str]  # role and content; a truthy `cut` says that the content has no end

# Private-use characters stand for the typed texts while the template is rendered.
_SLOT = re.compile("\ue000([0-9]+)\ue001")


def encode_text(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Plain text as ids; the names of special tokens in it are text like any other."""
    return tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]


def render(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], reply: bool) -> str:
    """The chat template's text, with the opening of an assistant turn if `reply`.

    Raises:
        ValueError: if the tokenizer has no chat template.
    """
    if not tokenizer.chat_template:
        raise ValueError("This checkpoint has no chat template; use raw text or a checkpoint that has one.")
    return tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=reply)


def encode_rendered(tokenizer: PreTrainedTokenizerBase, rendered: str, texts: Sequence[str]) -> list[int]:
    """Ids of a rendered template whose slots stand for `texts`.

    Where no text spells a special token this is the tokenizer's own reading of the whole.
    """
    special = [token for token in tokenizer.get_added_vocab() if any(token in t for t in texts)]
    if not special:
        whole = _SLOT.sub(lambda match: texts[int(match[1])], rendered)
        return tokenizer(whole, add_special_tokens=False)["input_ids"]
    ids: list[int] = []
    for index, piece in enumerate(_SLOT.split(rendered)):
        if index % 2:
            ids += encode_text(tokenizer, texts[int(piece)])
        elif piece:
            ids += tokenizer(piece, add_special_tokens=False)["input_ids"]
    return ids


def with_slots(messages: Sequence[Message]) -> tuple[list[Message], list[str]]:
    """The messages with a slot for each text, and the texts, cleared of the slots' own characters."""
    slotted = [{**m, "content": f"\ue000{i}\ue001"} for i, m in enumerate(messages)]
    texts = [m["content"].replace("\ue000", "").replace("\ue001", "") for m in messages]
    return slotted, texts


def encode_prompt(tokenizer: PreTrainedTokenizerBase, prompt: str | Sequence[Message]) -> list[int]:
    """A user's prompt, or a conversation, in the chat template, ready for the model's answer."""
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    slotted, texts = with_slots(messages)
    return encode_rendered(tokenizer, render(tokenizer, slotted, reply=True), texts)
