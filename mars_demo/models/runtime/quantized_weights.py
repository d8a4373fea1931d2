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
    """A quantized matrix [out, in] of weights `scale · (q - 128)`.

    q: uint8 [out, in / 32, 32].
    scales: float32 [out, in / 32].
    """

    q: np.ndarray
    scales: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.q.shape[0], self.q.shape[1] * GROUP

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Return the dequantized rows [n, in] with these indices in float32."""
        values = (self.q[indices].astype(np.float32) - 128) * self.scales[indices][..., None]
        return values.reshape(len(indices), -1)

    def signed(self) -> np.ndarray:
        """Return the weights [out, in] as signed bytes, to multiply by their scales."""
        return (self.q ^ 0x80).view(np.int8).reshape(self.shape)

    def ordered(self, rows: np.ndarray) -> Quantized:
        """Return the matrix with its rows in another order."""
        return Quantized(self.q[rows], self.scales[rows])


def quantize(weights: Tensor) -> Quantized:
    """Quantize a matrix [out, in], with `in` a multiple of 32, symmetrically to 8 bits."""
    groups = weights.float().unflatten(-1, (-1, GROUP))
    scales = groups.abs().amax(-1) / 127
    steps = groups / torch.where(scales == 0, 1, scales)[..., None]
    q = (steps.round().clamp(-127, 127) + 128).to(torch.uint8).numpy()
    return Quantized(q, scales.numpy())


def of_gguf(blocks: np.ndarray) -> Quantized:
    """Return a tensor of GGUF blocks [out, bytes of a row] in Q8_0, without changing its weights.

    A block holds a float16 scale and 32 weights as signed bytes.
    """
    rows = blocks.view(np.uint8).reshape(blocks.shape[0], -1, 2 + GROUP)
    scales = np.ascontiguousarray(rows[..., :2]).view(np.float16)[..., 0].astype(np.float32)
    return Quantized(rows[..., 2:] ^ 0x80, scales)  # signed bytes to unsigned bytes with offset 128


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
        return Quantized(q, scales)

    def vector(self, *names: str) -> np.ndarray | None:
        """Return the named vectors concatenated; None if the model does not have them."""
        if names[0] not in self._vectors:
            return None
        return np.concatenate([self._vectors[name].float().numpy() for name in names])


@torch.inference_mode()
def of_model(model: PreTrainedModel, quantized: bool = True) -> Weights:
    """Return the weights of a transformers model, quantized or in float32."""
    state = {name: value.cpu() for name, value in model.state_dict().items()}
    matrices = {name: value for name, value in state.items() if value.ndim == 2}
    return Weights(
        {n: quantize(m) if quantized else m.float().numpy() for n, m in matrices.items()},
        {name: value for name, value in state.items() if value.ndim == 1},
    )
