"""The attention implementation of training."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from transformers import PreTrainedModel

from mars_demo.models.device import computes_bfloat16

FLEX, SDPA = "flex_attention", "sdpa"


def fastest(device: torch.device) -> str:
    """Return the attention implementation that trains fastest on a device.

    FlexAttention skips the blocks of keys that the two streams mask, but is fast only when compiled. There
    is no compiler for older GPUs, and ZeroGPU does not allow one. On a CPU it has no backward pass.
    """
    is_compiled = device.type == "cuda" and computes_bfloat16(str(device))
    return FLEX if is_compiled and not os.environ.get("SPACES_ZERO_GPU") else SDPA


@contextmanager
def attending(model: PreTrainedModel, implementation: str) -> Iterator[None]:
    """Use another attention implementation within a `with` block.

    The old one must come back for decoding, whose masks are booleans: FlexAttention would add them to the
    scores.
    """
    before = model.config._attn_implementation
    model.set_attn_implementation(implementation)
    try:
        yield
    finally:
        model.set_attn_implementation(before)
