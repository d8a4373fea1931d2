"""Which token logits lead to: the most probable one, or one that is drawn.

A draw is an argmax too, of the logits plus Gumbel noise, and the noise belongs to the seed and to the place
in the text. So drafts are verified by comparing tokens: a draft that was drawn with the noise of its place
is accepted where the verifying distribution draws the same token with the same noise, and the answer is,
token for token, what one token per forward would have drawn. The distribution of the answers is
exactly that of the verifying model, as with rejection sampling (arXiv 2504.15475 compares the two), and
a seed means the same answer in every mode and batch.
"""

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)


@dataclass(frozen=True)
class Sampling:
    """Draw from the distribution at `temperature`, of the `top_k` most probable tokens (0 for all) those
    that make up a probability of `top_p`.

    Raises:
        ValueError: if one of them is out of its range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0

    def __post_init__(self):
        if not self.temperature > 0:
            raise ValueError(
                f"The temperature of sampling must be above 0, not {self.temperature:g}; "
                "without one the most probable token is chosen."
            )
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p:g}.")
        if self.top_k < 0:
            raise ValueError(f"top_k must be at least 0, which is all tokens, not {self.top_k}.")

    def scores(self, logits: Tensor) -> Tensor:
        """[rows, vocabulary] logits of the distribution that is drawn from; what it leaves out is -inf."""
        warpers = LogitsProcessorList([TemperatureLogitsWarper(float(self.temperature))])
        if self.top_k:
            warpers.append(TopKLogitsWarper(self.top_k))
        if self.top_p < 1:
            warpers.append(TopPLogitsWarper(self.top_p))
        return warpers(None, logits)

    def choose(self, logits: Tensor, positions: Sequence[int]) -> Tensor:
        """[rows] tokens, one drawn from each row of [rows, vocabulary] logits.

        positions: the place in the text of each row's token.
        """
        size, device = logits.shape[-1], logits.device
        noise = torch.stack([gumbel(self.seed, position, size, device) for position in positions])
        return (self.scores(logits) + noise).argmax(-1)


@functools.lru_cache(maxsize=256)  # a token is drafted in one forward and verified in the next
def gumbel(seed: int, position: int, size: int, device: torch.device) -> Tensor:
    """Return [size] standard Gumbel noise that belongs to one place of one seed.

    It is a function of seed, place and token, computed on the device: no generator has a state, and the
    bits are the same everywhere.
    """
    digest = hashlib.blake2b(f"{seed} {position}".encode(), digest_size=8).digest()
    bits = torch.arange(size, device=device)
    for half in (digest[:4], digest[4:]):
        bits = _mixed(bits ^ int.from_bytes(half))
    # The smallest shares lead to the largest noise, and float32 has them most exactly.
    share = ((bits.float() + 0.5) / 2**32).clamp(max=1 - 2**-24)
    return -(-torch.log1p(-share)).log()


def _mixed(bits: Tensor) -> Tensor:
    """Mix numbers of 32 bits, one to one (lowbias32, found with hash-prospector)."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        bits = (bits ^ (bits >> shift)) * factor & 0xFFFFFFFF
    return bits ^ (bits >> 16)
