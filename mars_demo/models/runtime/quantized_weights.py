"""Quantized weights in the format of the integer kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

GROUP = 32  # consecutive weights of a row that share a scale, as in GGUF files


@dataclass(frozen=True)
class Quantized:
    """A quantized matrix [out, in] of weights `scale · (q - 2^(bits - 1))`.

    q: uint8 [out, in / 32, 4 · bits], with one weight per byte, or two, the first in the lower half.
    scales: float32 [out, in / 32].
    """

    q: np.ndarray
    scales: np.ndarray
    bits: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.q.shape[0], self.q.shape[1] * GROUP

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Return the dequantized rows [n, in] with these indices in float32."""
        q = self.q[indices]
        if self.bits == 4:
            q = np.stack([q & 15, q >> 4], axis=-1).reshape(*q.shape[:2], GROUP)
        values = (q.astype(np.float32) - (1 << self.bits - 1)) * self.scales[indices][..., None]
        return values.reshape(len(indices), -1)

    def signed(self) -> np.ndarray:
        """Return the weights [out, in] of 8 bits as signed bytes, to multiply by their scales."""
        return (self.q ^ 0x80).view(np.int8).reshape(self.shape)

    def ordered(self, rows: np.ndarray) -> Quantized:
        """Return the matrix with its rows in another order."""
        return Quantized(self.q[rows], self.scales[rows], self.bits)


def quantize(weights: Tensor, bits: int) -> Quantized:
    """Quantize a matrix [out, in], with `in` a multiple of 32.

    8 bits are symmetric. With 4 bits the largest weight of a group, positive or negative, is exact (GGUF's
    Q4_0).
    """
    groups = weights.float().unflatten(-1, (-1, GROUP))
    if bits == 8:
        scales = groups.abs().amax(-1) / 127
        lowest, highest = -127, 127
    else:
        largest = groups.gather(-1, groups.abs().argmax(-1, keepdim=True))[..., 0]
        scales = largest / -8
        lowest, highest = -8, 7
    steps = groups / torch.where(scales == 0, 1, scales)[..., None]
    q = (steps.round().clamp(lowest, highest) + (1 << bits - 1)).to(torch.uint8).numpy()
    return Quantized(_packed(q, bits), scales.numpy(), bits)


def of_gguf(blocks: np.ndarray, bits: int) -> Quantized:
    """Return a tensor of GGUF blocks [out, bytes of a row] in Q8_0 or Q4_0, without changing its weights.

    A block holds a float16 scale and 32 weights: as signed bytes, or as 16 bytes with the first half of the
    weights in their lower halves.
    """
    rows = blocks.view(np.uint8).reshape(blocks.shape[0], -1, 2 + GROUP * bits // 8)
    scales = np.ascontiguousarray(rows[..., :2]).view(np.float16)[..., 0].astype(np.float32)
    codes = rows[..., 2:]
    if bits == 8:
        return Quantized(codes ^ 0x80, scales, bits)  # signed bytes to unsigned bytes with offset 128
    halves = np.concatenate([codes & 15, codes >> 4], axis=-1)
    return Quantized(_packed(halves, bits), scales, bits)


def _packed(q: np.ndarray, bits: int) -> np.ndarray:
    """Return codes, given one per byte, in the format of the kernels."""
    return q if bits == 8 else q[..., 0::2] | (q[..., 1::2] << 4)


Matrix = Quantized | np.ndarray  # quantized, or float32 [out, in]


class Weights:
    """The weights of a graph: matrices and float32 vectors by their names in the model."""

    def __init__(self, matrices: Mapping[str, Matrix], vectors: Mapping[str, Tensor]):
        self._matrices, self._vectors = matrices, vectors

    def matrix(self, *names: str) -> Matrix:
        """Return the named matrices concatenated by rows, so that one product computes all of them."""
        parts = [self._matrices[f"{name}.weight"] for name in names]
        if len(parts) == 1:
            return parts[0]
        if isinstance(parts[0], np.ndarray):
            return np.concatenate(parts)
        q, scales = (np.concatenate([getattr(part, name) for part in parts]) for name in ("q", "scales"))
        return Quantized(q, scales, parts[0].bits)

    def vector(self, *names: str) -> np.ndarray | None:
        """Return the named vectors concatenated; None if the model does not have them."""
        if names[0] not in self._vectors:
            return None
        return np.concatenate([self._vectors[name].float().numpy() for name in names])


@torch.inference_mode()
def of_model(model: PreTrainedModel, bits: int) -> Weights:
    """Return the weights of a transformers model: quantized, or in float32 for 32 bits."""
    state = {name: value.cpu() for name, value in model.state_dict().items()}
    matrices = {name: value for name, value in state.items() if value.ndim == 2}
    return Weights(
        {n: m.float().numpy() if bits == 32 else quantize(m, bits) for n, m in matrices.items()},
        {name: value for name, value in state.items() if value.ndim == 1},
    )
