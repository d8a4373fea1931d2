"""How a model attends while it is trained, and that it decodes as before afterwards."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from transformers import PreTrainedModel

from mars_demo.models.device import computes_bfloat16

FLEX, SDPA = "flex_attention", "sdpa"


def fastest(device: torch.device) -> str:
    """Return the attention that trains fastest on a device.

    FlexAttention computes no block of keys that the two streams mask, but only a compiler makes it fast:
    there is none for older GPUs, and ZeroGPU allows none. On a CPU it has no backward pass.
    """
    is_compiled = device.type == "cuda" and computes_bfloat16(str(device))
    return FLEX if is_compiled and not os.environ.get("SPACES_ZERO_GPU") else SDPA


@contextmanager
def attending(model: PreTrainedModel, implementation: str) -> Iterator[None]:
    """Let a model attend in another way for a while. Decoding masks with booleans, which FlexAttention
    would add to the scores."""
    before = model.config._attn_implementation
    model.set_attn_implementation(implementation)
    try:
        yield
    finally:
        model.set_attn_implementation(before)
