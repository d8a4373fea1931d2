"""Sampling with Gumbel coupling.

A sample is the argmax of the logits plus Gumbel noise, and the noise depends only on the seed and the
position in the text. Verification therefore compares tokens: a draft sampled with the noise of its position
is accepted if the verifying distribution yields the same token with the same noise. The answer equals,
token for token, the one sampled with one token per forward. Its distribution is exactly that of the
verifying model, as with rejection sampling (arXiv 2504.15475 compares the two), and a seed gives the same
answer in every mode and batch.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from mars_demo.core.fields import Seed, Temperature, TopK, TopP, parameter
from mars_demo.core.noise import gumbel_noise

COLDEST = 0.01  # below this temperature, decoding is greedy: sampling would only add rounding errors


@dataclass(frozen=True)
class Sampling:
    """The sampling settings: temperature, then top-k, then top-p.

    Raises:
        ValueError: if a value is out of range.
    """

    temperature: float = parameter(1.0, Temperature, "sampling temperature, which divides the logits")
    top_p: float = parameter(1.0, TopP, "sample from the smallest set of tokens with probability X")
    top_k: int = parameter(0, TopK, "sample from the N most probable tokens; 0: from all")
    seed: int = parameter(0, Seed, "seed of sampling")

    def __post_init__(self):
        if not self.temperature > 0:
            raise ValueError(
                f"The temperature of sampling must be above 0, not {self.temperature:g}; "
                "without sampling, decoding is greedy."
            )
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p:g}.")
        if self.top_k < 0:
            raise ValueError(f"top_k must be at least 0 (all tokens), not {self.top_k}.")

    @classmethod
    def at(cls, temperature: float, **more: Any) -> Sampling | None:
        """Return the settings at a temperature; None, which is greedy decoding, below `COLDEST`."""
        return None if temperature < COLDEST else cls(temperature, **more)

    def scores(self, logits: Tensor) -> Tensor:
        """Return the logits [slots, vocabulary] to sample from; excluded tokens have -inf."""
        warpers = LogitsProcessorList([TemperatureLogitsWarper(float(self.temperature))])
        if self.top_k:
            warpers.append(TopKLogitsWarper(self.top_k))
        if self.top_p < 1:
            warpers.append(TopPLogitsWarper(self.top_p))
        return warpers(None, logits)

    def choose(self, logits: Tensor, positions: Sequence[int]) -> Tensor:
        """Return tokens [slots] sampled from logits [slots, vocabulary].

        positions: the position in the text of each slot's token.
        """
        size, device = logits.shape[-1], logits.device
        noise = torch.stack([gumbel(self.seed, position, size, device) for position in positions])
        return (self.scores(logits) + noise).argmax(-1)


# A token is drafted in one forward and verified in the next. The noise of a position takes 0.6 MB in a
# vocabulary of 152 000 tokens.
@functools.lru_cache(maxsize=32)
def gumbel(seed: int, position: int, size: int, device: torch.device) -> Tensor:
    """Return standard Gumbel noise [size] for one seed and one position.

    `gumbel_noise` computes it on the device.
    """
    at = (torch.full((1,), number, dtype=torch.int64, device=device) for number in (seed, position))
    return gumbel_noise(*at, size)[0]
