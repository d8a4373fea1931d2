"""Conversations as token ids. Typed text never becomes a special token."""

import re
from collections.abc import Sequence

import torch
from jinja2 import TemplateError
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from mars_demo.models.messages import Message, user

# Private-use characters stand for the typed texts while the template is rendered.
_SLOT = re.compile("\ue000([0-9]+)\ue001")


def encode_text(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Return plain text as ids. Names of special tokens in it are ordinary text."""
    return tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]


def encode_after(tokenizer: PreTrainedTokenizerBase, before: Sequence[int], text: str) -> list[int]:
    """Return ids that continue those before them with exactly this text.

    Raises:
        ValueError: if the tokenizer has none, which writes a space before some texts.
    """

    def decoded(ids: Sequence[int]) -> str:
        return tokenizer.decode([*ids], skip_special_tokens=True, clean_up_tokenization_spaces=False)

    wanted = decoded(before) + text
    for start in ("", "\n", "."):  # some tokenizers write a text differently at the beginning
        opening = encode_text(tokenizer, start)
        ids = encode_text(tokenizer, start + text)
        if ids[: len(opening)] == opening and decoded([*before, *ids[len(opening) :]]) == wanted:
            return ids[len(opening) :]
    raise ValueError(
        "This model's tokenizer cannot write that text at this place; try it with a space before it."
    )


def encode_raw(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Return a text for the model to continue, after the token that begins texts, if there is one."""
    return tokenizer(text, split_special_tokens=True)["input_ids"]


def render(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], reply: bool) -> str:
    """Return the chat template's text, with the opening of an assistant turn if `reply`.

    Raises:
        ValueError: if the tokenizer has no chat template, or it refuses the messages.
    """
    if not tokenizer.chat_template:
        raise ValueError(
            "This checkpoint has no chat template, which a conversation needs. Ask it single prompts, or "
            "use a checkpoint that has one."
        )
    plain = [{"role": message["role"], "content": message["content"]} for message in messages]
    try:
        return tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=reply)
    except TemplateError as error:
        roles = ", ".join(dict.fromkeys(message["role"] for message in messages))
        raise ValueError(f"The chat template refuses messages of {roles}: {error}.") from error


def encode_rendered(tokenizer: PreTrainedTokenizerBase, rendered: str, texts: Sequence[str]) -> list[int]:
    """Return ids of a rendered template whose slots stand for `texts`.

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
    """Return the messages with a slot for each text, and the texts without the slots' own characters."""
    slotted = [{**m, "content": f"\ue000{i}\ue001"} for i, m in enumerate(messages)]
    texts = [m["content"].replace("\ue000", "").replace("\ue001", "") for m in messages]
    return slotted, texts


def encode_prompt(tokenizer: PreTrainedTokenizerBase, prompt: str | Sequence[Message]) -> list[int]:
    """Return a user's prompt, or a conversation, in the chat template, ready for the model's answer. A
    tokenizer without a template reads a single prompt as raw text.

    Raises:
        ValueError: if a conversation needs a chat template and there is none.
    """
    messages = [user(prompt)] if isinstance(prompt, str) else prompt
    if not tokenizer.chat_template and len(messages) == 1:
        return encode_raw(tokenizer, messages[0]["content"])
    slotted, texts = with_slots(messages)
    return encode_rendered(tokenizer, render(tokenizer, slotted, reply=True), texts)


def pad_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the padding token, or the end token if the tokenizer has none."""
    return tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id


def left_padded(
    rows: Sequence[Sequence[int]], pad: int, device: torch.device, multiple: int = 1
) -> tuple[Tensor, Tensor]:
    """Return [rows, width] ids padded on the left to a multiple of a width, and which are real."""
    width = -(-max(map(len, rows)) // multiple) * multiple
    ids = [[pad] * (width - len(row)) + list(row) for row in rows]
    real = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
    return torch.tensor(ids, device=device), torch.tensor(real, device=device)
