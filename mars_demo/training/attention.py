"""The attention implementation of training."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.flex_attention import flex_attention_forward

from mars_demo.models.device import computes_bfloat16
from mars_demo.training.failures import has_compiler

FLEX, SDPA = "flex", "sdpa"


def _in_one_dtype(module, queries: Tensor, keys: Tensor, values: Tensor, mask, **settings):
    """Compute FlexAttention in the dtype of the values.

    Under autocast, rotary embeddings leave queries and keys in float32, for which kernels are far slower.
    """
    dtype = values.dtype
    return flex_attention_forward(module, queries.to(dtype), keys.to(dtype), values, mask, **settings)


AttentionInterface.register(FLEX, _in_one_dtype)


def fastest(device: torch.device) -> str:
    """Return the attention implementation that trains fastest on a device.

    FlexAttention skips the blocks of keys that the two streams mask, but is fast only when Triton compiles
    it. Triton does not compile for older GPUs, and ZeroGPU does not allow it. On a CPU FlexAttention has no
    backward pass.
    """
    has_units = device.type == "cuda" and computes_bfloat16(str(device))
    if not has_units or os.environ.get("SPACES_ZERO_GPU"):
        return SDPA
    needs = {"Triton": find_spec("triton"), "a C compiler such as gcc": has_compiler("CC", "gcc", "clang")}
    if lacking := [name for name, is_here in needs.items() if not is_here]:
        warnings.warn(
            f"Training uses SDPA, because FlexAttention needs {' and '.join(lacking)}.", stacklevel=2
        )
    return SDPA if lacking else FLEX


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
