"""The rotation of the residual stream, which spreads its few large channels over all of them.

An RMS norm without gains commutes with an orthogonal matrix Q. So Q can be folded into the weights that
write to the residual stream and into those that read it, and the model computes the same logits
(QuaRot, arXiv 2404.00456, section 4). Rotated inputs lose little when they are rounded to 8 bits.
"""

import math

import numpy as np
import torch
from torch import Tensor

_LARGEST = 64  # rows of the Hadamard factor


class Rotation:
    """An orthogonal matrix Q [width, width]: random signs, then a Hartley ⊗ a Hadamard matrix.

    The factors make it cheap to apply, and both spread one channel evenly.
    """

    def __init__(self, width: int):
        power = math.gcd(width, _LARGEST)
        self._signs = torch.from_numpy(np.random.default_rng(0).choice([-1.0, 1.0], width)).float()
        self._hadamard, self._hartley = _hadamard(power), _hartley(width // power)

    def __call__(self, rows: Tensor) -> Tensor:
        """Return float32 rows [n, width] · Q."""
        blocks = (rows * self._signs).unflatten(-1, (len(self._hartley), -1))
        columns = (
            (blocks @ self._hadamard).transpose(-1, -2).contiguous()
        )  # for one large product, not many
        return (columns @ self._hartley).transpose(-1, -2).flatten(-2)


def _hadamard(size: int) -> Tensor:
    matrix = torch.ones(1, 1)
    while len(matrix) < size:
        matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), matrix)
    return matrix / size**0.5


def _hartley(size: int) -> Tensor:
    """Return the orthonormal matrix of the Hartley transform, which is symmetric."""
    steps = torch.arange(size, dtype=torch.float64)
    angles = 2 * torch.pi * torch.outer(steps, steps) / size
    return ((angles.cos() + angles.sin()) / size**0.5).float()
