"""Reordered weights for the bfloat16 kernels of CPUs.

torch reorders the matrix of a linear layer in every forward, which takes longer than the product for the
few positions of a window. This module reorders it once; the layer's `weight` does not change.
"""

import copy
from typing import Self

import torch
from torch import Tensor, nn


class ReorderedLinear(nn.Linear):
    """A linear layer that computes with a reordered copy of its weight."""

    @classmethod
    def of(cls, linear: nn.Linear) -> Self:
        """Return a reordered layer that shares the weight of a linear layer."""
        with torch.device("meta"):
            layer = cls(linear.in_features, linear.out_features, bias=False, dtype=linear.weight.dtype)
        layer.weight = linear.weight
        layer._reordered = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), 1)
        return layer

    def __deepcopy__(self, memo: dict) -> Self:
        plain = nn.Linear(1, 1, bias=False)
        plain.weight = copy.deepcopy(self.weight, memo)
        plain.out_features, plain.in_features = plain.weight.shape
        return ReorderedLinear.of(plain)

    def forward(self, inputs: Tensor) -> Tensor:
        was_cast = (self.weight.dtype, self.weight.device.type) != (torch.bfloat16, "cpu")
        if was_cast or torch.is_grad_enabled() or inputs.dtype != torch.bfloat16:
            return super().forward(inputs)
        return torch.ops.mkldnn._linear_pointwise(inputs, self._reordered, None, "none", [], "")


def is_available() -> bool:
    """Return whether this CPU and this torch have the kernels, which torch.compile uses too."""
    return (
        torch.backends.mkldnn.is_available()
        and torch.ops.mkldnn._is_mkldnn_bf16_supported()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def reorder(model: nn.Module) -> None:
    """Replace the linear layers of a bfloat16 model, which then take twice the memory."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Linear and child.bias is None:
                setattr(module, name, ReorderedLinear.of(child))
