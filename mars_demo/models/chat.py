"""Encoding of conversations as token ids. Text from users never becomes a special token."""

import re
from collections.abc import Sequence

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from mars_demo.core.messages import Message, user

# Private-use characters mark the places of the users' texts while the template is rendered.
_SLOT = re.compile("\ue000([0-9]+)\ue001")


def encode_text(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Return the ids of a plain text. Names of special tokens in it are ordinary text."""
    return tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]


def encode_raw(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Return the ids of a text without a chat template, after the BOS token if the tokenizer adds one."""
    return tokenizer(text, split_special_tokens=True)["input_ids"]


def render(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], reply: bool) -> str:
    """Return the messages in the chat template, with the opening of an assistant turn if `reply`.

    Raises:
        ValueError: if the tokenizer has no chat template, or the template rejects the messages.
    """
    if not tokenizer.chat_template:
        raise ValueError(
            "This checkpoint has no chat template, which a conversation needs. Use single prompts or "
            "another checkpoint."
        )
    plain = [{"role": message["role"], "content": message["content"]} for message in messages]
    try:
        return tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=reply)
    except TemplateError as error:
        roles = ", ".join(dict.fromkeys(message["role"] for message in messages))
        raise ValueError(f"The chat template rejects messages of {roles}: {error}.") from error


def encode_rendered(tokenizer: PreTrainedTokenizerBase, rendered: str, texts: Sequence[str]) -> list[int]:
    """Return the ids of a rendered template with `texts` in its slots.

    If no text contains the name of a special token, these are the tokenizer's ids of the whole text.
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
    """Return the messages with a slot for each text, and the texts without the slots' characters."""
    slotted = [{**m, "content": f"\ue000{i}\ue001"} for i, m in enumerate(messages)]
    texts = [m["content"].replace("\ue000", "").replace("\ue001", "") for m in messages]
    return slotted, texts


def encode_prompt(tokenizer: PreTrainedTokenizerBase, prompt: str | Sequence[Message]) -> list[int]:
    """Return the ids of a prompt or a conversation in the chat template, up to the model's answer.

    Without a template, a single prompt is encoded as raw text.

    Raises:
        ValueError: if a conversation needs a chat template and there is none.
    """
    messages = [user(prompt)] if isinstance(prompt, str) else prompt
    if not tokenizer.chat_template and len(messages) == 1:
        return encode_raw(tokenizer, messages[0]["content"])
    slotted, texts = with_slots(messages)
    return encode_rendered(tokenizer, render(tokenizer, slotted, reply=True), texts)


def pad_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the id of the padding token, or of the end token if there is no padding token."""
    return tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
