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
import hashlib
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

    It is a stateless function of seed, position and token, computed on the device, with the same bits on
    every device.
    """
    digest = hashlib.blake2b(f"{seed} {position}".encode(), digest_size=8).digest()
    bits = torch.arange(size, device=device)
    for half in (digest[:4], digest[4:]):
        bits = _mixed(bits ^ int.from_bytes(half))
    # The smallest shares give the largest noise, and float32 is most precise there.
    share = ((bits.float() + 0.5) / 2**32).clamp(max=1 - 2**-24)
    return -(-torch.log1p(-share)).log()


def _mixed(bits: Tensor) -> Tensor:
    """Apply a bijective hash to 32-bit numbers (lowbias32, found with hash-prospector)."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        bits = (bits ^ (bits >> shift)) * factor & 0xFFFFFFFF
    return bits ^ (bits >> 16)
