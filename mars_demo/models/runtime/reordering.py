"""bfloat16 on a CPU: reordered weights, and logits that do not depend on the size of a forward.

torch reorders the matrix of a linear layer in every forward, which takes longer than the product for the
few positions of a window. This module reorders it once; the layer's `weight` does not change.

Kernels add the terms of a product in an order that depends on its shape, and in bfloat16 another order can
change the next token. `ar` computes one position per forward, and modes that verify drafts compute several.
Products are therefore padded to shapes that add the terms of a row in the same order: two rows in linear
layers, and in attention a multiple of four queries and few numbers of keys.
"""

import copy
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTION = "padded_sdpa"  # the name of `attention` in transformers
QUERIES = 4  # products of fewer rows have another kernel
BLOCK = 512  # torch's attention splits the keys into blocks of this size
# The sizes of the last block. A product adds up to 192 keys at once, and splits 193 to 383 into halves.
KEYS = (0, 64, 128, 192, 384, BLOCK)


class ReorderedLinear(nn.Linear):
    """A linear layer that computes with a reordered copy of its weight."""

    @classmethod
    def of(cls, linear: nn.Linear) -> Self:
        """Return a reordered layer that shares the weight and bias of a linear layer."""
        with torch.device("meta"):
            layer = cls(linear.in_features, linear.out_features, bias=False, dtype=linear.weight.dtype)
        layer.weight, layer.bias = linear.weight, linear.bias
        layer._reordered = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), 1)
        return layer

    def __deepcopy__(self, memo: dict) -> Self:
        plain = nn.Linear(1, 1, bias=False)
        plain.weight, plain.bias = copy.deepcopy((self.weight, self.bias), memo)
        plain.out_features, plain.in_features = plain.weight.shape
        return ReorderedLinear.of(plain)

    def forward(self, inputs: Tensor) -> Tensor:
        if not _is_decoding(self.weight) or inputs.dtype != torch.bfloat16:
            return super().forward(inputs)
        is_one_row = inputs.numel() == self.in_features
        rows = torch.stack([inputs, inputs]) if is_one_row else inputs
        outputs = torch.ops.mkldnn._linear_pointwise(rows, self._reordered, self.bias, "none", [], "")
        return outputs[0] if is_one_row else outputs


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **settings: object,
) -> tuple[Tensor, None]:
    """Return the outputs [batch, n, heads, size] of attention, for transformers' `AttentionInterface`.

    Heads that share keys are queries of one product. Without a mask, with a position bias, in training and
    in other precisions this is `sdpa` of transformers.

    query: [batch, heads, n, size].
    key, value: [batch, groups, width, size].
    attention_mask: [batch, 1, n, width] bool.
    """
    if attention_mask is None or settings.get("position_bias") is not None or not _is_decoding(query):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **settings
        )
    batch, heads, count, size = query.shape
    groups, width = key.shape[1:3]
    shared, last = heads // groups, width % BLOCK
    rows = shared * count
    more, wider = -rows % QUERIES, next(keys for keys in KEYS if keys >= last) - last
    attended = scaled_dot_product_attention(
        pad(query.reshape(batch, groups, rows, size), (0, 0, 0, more)),
        pad(key, (0, 0, 0, wider)),
        pad(value, (0, 0, 0, wider)),
        attn_mask=pad(torch.cat([attention_mask] * shared, dim=2), (0, wider, 0, more)),
        scale=scaling,
    )
    return attended[:, :, :rows].reshape(batch, heads, count, -1).transpose(1, 2), None


AttentionInterface.register(ATTENTION, attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)


def is_available() -> bool:
    """Return whether this CPU and this torch have the kernels, which torch.compile uses too."""
    return (
        torch.backends.mkldnn.is_available()
        and torch.ops.mkldnn._is_mkldnn_bf16_supported()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def reorder(model: PreTrainedModel) -> None:
    """Replace linear layers and attention of a bfloat16 model, whose weights then take twice the memory."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Linear:
                setattr(module, name, ReorderedLinear.of(child))
    if model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(ATTENTION)


def _is_decoding(tensor: Tensor) -> bool:
    is_here = (tensor.dtype, tensor.device.type) == (torch.bfloat16, "cpu")
    return is_here and not torch.is_grad_enabled()
