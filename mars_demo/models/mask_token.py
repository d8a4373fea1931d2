"""The mask token: a row of the embedding that is otherwise unused."""

import re

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mars_demo.models.checkpoint import end_ids

MASK = "<|mask|>"
_RESERVED = re.compile("reserved|unused|extra_id|placeholder", re.IGNORECASE)


def ensure_mask(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Give the tokenizer a mask token if it has none, without a new row in the embedding.

    The first spare row after the tokenizer's own ids becomes `<|mask|>`; where there is none, a special
    token that is reserved or that no chat template and no other role uses is taken over. Its row becomes
    the mean of all rows, of which a model expects no word in particular: it has never been trained.

    Raises:
        ValueError: if there is neither.
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
            "The tokenizer has no room for a mask token: "
            "no spare row in the embedding and no unused special token."
        )
    return next((name for name in free if _RESERVED.search(name)), free[-1])
