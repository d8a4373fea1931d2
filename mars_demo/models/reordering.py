"""Weights in the order in which a CPU's bfloat16 kernels read them.

torch reorders the matrix of a linear layer in every forward, which for the few positions of a window takes
longer than the product. Here it is done once; the layer's `weight` stays as it was.
"""

import copy
from typing import Self

import torch
from torch import Tensor, nn


class ReorderedLinear(nn.Linear):
    """A linear layer that computes with a reordered copy of the weight that it saves and trains."""

    @classmethod
    def of(cls, linear: nn.Linear) -> Self:
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
    """Return whether this processor and this torch have such kernels, the ones that torch.compile uses."""
    return (
        torch.backends.mkldnn.is_available()
        and torch.ops.mkldnn._is_mkldnn_bf16_supported()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def reorder(model: nn.Module) -> None:
    """Replace the linear layers of a model in bfloat16. They then take twice the memory."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Linear and child.bias is None:
                setattr(module, name, ReorderedLinear.of(child))
