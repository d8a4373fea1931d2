"""The mask token, which takes an unused row of the embedding."""

import re

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mars_demo.models.checkpoint import end_ids

MASK = "<|mask|>"
_RESERVED = re.compile("reserved|unused|extra_id|placeholder", re.IGNORECASE)


def ensure_mask(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Give the tokenizer a mask token if it has none, without a new row in the embedding.

    The first spare row after the tokenizer's own ids becomes `<|mask|>`. If there is none, it takes over a
    reserved special token, or one that neither the chat template nor another role uses. The untrained row
    becomes the mean of all rows, which suggests no particular word.

    Raises:
        ValueError: if there is neither a spare row nor an unused special token.
    """
    if tokenizer.mask_token_id is not None:
        return
    rows = model.get_input_embeddings().weight
    if len(tokenizer) < len(rows):
        tokenizer.add_special_tokens({"mask_token": MASK})
    else:
        tokenizer.mask_token = _unused_special(model, tokenizer)
    with torch.no_grad():
        rows[tokenizer.mask_token_id] = rows.mean(dim=0)


def _unused_special(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> str:
    roles = {
        getattr(tokenizer, f"{role}_token_id") for role in ("bos", "eos", "pad", "unk", "sep", "cls")
    } | end_ids(model, tokenizer)
    free = [
        token.content
        for index, token in sorted(tokenizer.added_tokens_decoder.items())
        if token.special and index not in roles and token.content not in (tokenizer.chat_template or "")
    ]
    if not free:
        raise ValueError(
            "There is no room for a mask token: the embedding has no spare row, and the tokenizer has no "
            "unused special token."
        )
    return next((name for name in free if _RESERVED.search(name)), free[-1])
