"""Gumbel noise that depends only on seed, position and token, with the same bits on every device.

`decoding.sampling` says what it is for. The plugin for vLLM samples with it too, and exported checkpoints
include a copy of this file, so it imports nothing else of this project.
"""

import torch
from torch import Tensor

WORD = 0xFFFFFFFF


def gumbel_noise(seeds: Tensor, positions: Tensor, size: int) -> Tensor:
    """Return standard Gumbel noise [rows, size], computed on the device of the seeds.

    seeds: 64-bit integers [rows].
    positions: the position in the text of each row's last token [rows].
    """
    parts = [seeds & WORD, seeds >> 32 & WORD, positions]
    bits = torch.arange(size, device=seeds.device)
    # Two keys, with the parts in both orders: if rows share one key, they differ in the other.
    for order in (parts, parts[::-1]):
        key = torch.full_like(seeds, 0x9E3779B9)
        for part in order:
            key = _mixed(key ^ part)
        bits = _mixed(bits ^ key[:, None])
    # The smallest shares give the largest noise, and float32 is most precise there.
    share = ((bits.float() + 0.5) / 2**32).clamp(max=1 - 2**-24)
    return -(-torch.log1p(-share)).log()


def _mixed(bits: Tensor) -> Tensor:
    """Apply a bijective hash to 32-bit numbers (lowbias32, found with hash-prospector)."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        bits = (bits ^ (bits >> shift)) * factor & WORD
    return bits ^ (bits >> 16)
