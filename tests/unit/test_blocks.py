"""The blocks that FlexAttention computes hold all that a position sees, and the whole ones are named."""

import random

import pytest
import torch
from torch.nn.attention.flex_attention import create_mask

from mars_demo.training.blocks import SIZE, block_mask
from mars_demo.training.corpus import Conversation
from mars_demo.training.objective import ar_batch, diffusion_batch, mars_batch

PAD, MASK = 0, 2
LENGTHS = [(40, 300), (9, 12), (400, 131), (1, 3)]  # of prompts and answers


def conversations() -> list[Conversation]:
    return [Conversation([7] * (p + a), [False] * p + [True] * a) for p, a in LENGTHS]


BATCHES = {
    "ar": lambda: ar_batch(conversations(), PAD),
    "mars": lambda: mars_batch(conversations(), 4, MASK, PAD, random.Random(0)),
    "whole copy": lambda: mars_batch(
        conversations(), 8, MASK, PAD, random.Random(0), fixed_blocks=True, whole_copy=True
    ),
    "block diffusion": lambda: diffusion_batch(conversations(), 200, MASK, PAD, random.Random(0)),
}


def listed(counts, which) -> torch.Tensor:
    """[blocks, blocks] the chosen ones of a list of blocks."""
    chosen = torch.zeros(which.shape[-2:], dtype=torch.bool)
    for row, (count, columns) in enumerate(zip(counts[0, 0].tolist(), which[0, 0].tolist())):
        chosen[row, columns[:count]] = True
    return chosen


@pytest.mark.parametrize("kind", BATCHES)
def test_blocks_are_those_of_the_boolean_mask(kind):
    batch = BATCHES[kind]()
    layout, (packed, spans) = batch.layout, batch.streams.packed()
    real = batch.streams.real
    expected = torch.block_diag(*(v[kept][:, kept].int() for v, kept in zip(layout.visible, real))).bool()
    mask = block_mask(spans)
    assert torch.equal(packed.ids[0], layout.ids[real])
    assert torch.equal(packed.positions[0], layout.positions[real])
    count = len(expected)
    assert torch.equal(create_mask(mask.mask_mod, 1, 1, count, count, "cpu")[0, 0], expected)
    blocks = torch.nn.functional.pad(expected, 2 * (0, -count % SIZE)).unflatten(0, (-1, SIZE))
    blocks = blocks.unflatten(-1, (-1, SIZE)).transpose(1, 2).flatten(2)
    whole = blocks.all(-1)
    assert torch.equal(listed(mask.full_kv_num_blocks, mask.full_kv_indices), whole)
    assert torch.equal(listed(mask.kv_num_blocks, mask.kv_indices), blocks.any(-1) & ~whole)
    assert mask.seq_lengths == (count, count)
