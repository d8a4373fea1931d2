"""The weights of a graph: in float32, or quantized with a rotated residual stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from mars_demo.models.runtime.rotation import Rotation

EMBEDDING, HEAD, LAST_NORM = "model.embed_tokens", "lm_head", "model.norm"
_BLOCK = 1 << 22  # the most weights of a quantized matrix that are in float32 at a time
# Layers that read the residual stream, with the norm before them, and layers that write to it.
_NORM_BEFORE = dict.fromkeys(("q_proj", "k_proj", "v_proj"), "input_layernorm") | dict.fromkeys(
    ("gate_proj", "up_proj"), "post_attention_layernorm"
)
_WRITERS = ("o_proj", "down_proj")


class Stored(Protocol):
    """A tensor that is read by rows: one of torch, of a safetensors file or of a GGUF file."""

    shape: tuple[int, ...]

    def __getitem__(self, rows: slice) -> Tensor: ...


@dataclass(frozen=True)
class Quantized:
    """Weights `q · scale`, with a scale per output.

    q: int8 [in, out]; of an embedding [tokens, width].
    scales: float32 [out]; of an embedding [tokens].
    """

    q: np.ndarray
    scales: np.ndarray


class Weights:
    """The float32 weights of a graph, from the tensors of a model by their names."""

    def __init__(self, tensors: Mapping[str, Stored], tied: bool):
        self._tensors, self.tied = tensors, tied
        self._head = EMBEDDING if tied else HEAD

    def embedding(self) -> np.ndarray | Quantized:
        """Return the embedding [tokens, width]."""
        return self._read(EMBEDDING)

    def head(self) -> np.ndarray | Quantized:
        """Return the matrix of the logits: [tokens, width]; quantized, as of linear layers."""
        return self._read(self._head)

    def matrix(self, *layers: str) -> np.ndarray | Quantized:
        """Return the weights [in, out] of linear layers, concatenated for one product."""
        return np.concatenate([self._read(layer) for layer in layers]).T

    def bias(self, *layers: str) -> np.ndarray | None:
        """Return the concatenated biases of linear layers; None if they have none."""
        if f"{layers[0]}.bias" not in self._tensors:
            return None
        return np.concatenate([self._read(layer, "bias") for layer in layers])

    def gain(self, norm: str) -> np.ndarray | None:
        """Return the gain of an RMS norm; None if the model does not have this norm."""
        return self._read(norm) if f"{norm}.weight" in self._tensors else None

    def _read(self, layer: str, kind: str = "weight") -> np.ndarray:
        return self._tensors[f"{layer}.{kind}"][:].float().numpy()


class QuantizedWeights(Weights):
    """The weights of a graph, rotated and quantized to 8 bits with a scale per output.

    The gains of the norms before linear layers are folded into these layers. A matrix is read when it is
    asked for, in blocks of rows if it is large.
    """

    def __init__(self, tensors: Mapping[str, Stored], tied: bool):
        super().__init__(tensors, tied)
        self._rotation = Rotation(tensors[f"{EMBEDDING}.weight"].shape[1])

    def embedding(self) -> Quantized:
        return Quantized(*_joined(map(self._rotation, self._blocks(EMBEDDING))))

    def head(self) -> Quantized:
        return self._reader(LAST_NORM, self._head)

    def matrix(self, *layers: str) -> Quantized:
        block, _, kind = layers[0].rsplit(".", 2)
        if kind in _NORM_BEFORE:
            return self._reader(f"{block}.{_NORM_BEFORE[kind]}", *layers)
        rotated = self._rotation(torch.from_numpy(self._read(layers[0])).T)
        return Quantized(*_rounded(rotated, dim=0))

    def bias(self, *layers: str) -> np.ndarray | None:
        bias = super().bias(*layers)
        if bias is None or not layers[0].endswith(_WRITERS):
            return bias
        return self._rotation(torch.from_numpy(bias)).numpy()

    def gain(self, norm: str) -> np.ndarray | None:
        gain = super().gain(norm)
        return gain if gain is None or norm.endswith(("q_norm", "k_norm")) else np.ones_like(gain)

    def _reader(self, norm: str, *layers: str) -> Quantized:
        gain = torch.from_numpy(self._read(norm))
        blocks = (self._rotation(rows * gain) for layer in layers for rows in self._blocks(layer))
        q, scales = _joined(blocks)
        return Quantized(np.ascontiguousarray(q.T), scales)

    def _blocks(self, layer: str) -> Iterator[Tensor]:
        """Yield the rows of a matrix in float32, block by block."""
        tensor = self._tensors[f"{layer}.weight"]
        rows, width = tensor.shape
        size = max(1, _BLOCK // width)
        return (tensor[start : start + size].float() for start in range(0, rows, size))


def _joined(blocks: Iterable[Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """Return blocks of float32 rows as signed bytes [n, width], with a scale [n] per row."""
    q, scales = zip(*(_rounded(rows, dim=1) for rows in blocks))
    return np.concatenate(q), np.concatenate(scales)


def _rounded(weights: Tensor, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a float32 matrix as signed bytes, with a scale for all weights along `dim`."""
    scales = weights.abs().amax(dim) / 127
    steps = torch.where(scales == 0, 1, scales).unsqueeze(dim)
    return (weights / steps).round_().to(torch.int8).contiguous().numpy(), scales.numpy()
