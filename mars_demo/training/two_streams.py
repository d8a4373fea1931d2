"""The layout of training: a clean and a noisy stream of every text in one forward (section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mars_demo.decoding.layout import NO_GROUP, Layout, Role

CLEAN = -1  # the block start of a position that belongs to no block


def block_starts(response: Sequence[bool], block_size: int, phases: Sequence[int]) -> list[int]:
    """The block of every noisy position: the position of the block's first mask, `CLEAN` elsewhere.

    Blocks are counted from the first position of each response, so that no block reaches into a prompt.
    A phase p in 0 … block_size-1, one per response, shortens that response's first block by p: a sliding
    window starts anywhere, training blocks should too.
    """
    starts, origin, phase, remaining = [], CLEAN, 0, iter(phases)
    for position, inside in enumerate(response):
        if not inside:
            origin = CLEAN
        elif origin == CLEAN:
            origin, phase = position, next(remaining)
        if origin == CLEAN:
            starts.append(CLEAN)
        else:
            block = (position - origin + phase) // block_size
            starts.append(max(origin, origin + block * block_size - phase))
    return starts


def two_streams(
    clean: Tensor,
    lengths: Tensor,
    noisy: Tensor,
    noisy_positions: Tensor,
    starts: Tensor,
    clean_starts: Tensor | None = None,
) -> Layout:
    """`[x ; x̃]`: a batch of clean streams, each followed by its noisy stream (section 3.2).

    clean: [rows, L] token ids, padded on the right; lengths: [rows] tokens of each row that are real.
    noisy: [rows, N] token ids, most of them masks; noisy_positions: [rows, N] where each stands; starts:
        [rows, N] the first position of its block, or `CLEAN` where a row has fewer than N.
    clean_starts: [rows, L] the block start of each clean token, or `CLEAN`. None for MARS. Given, it is
        block diffusion: within a block every position sees every other, in both streams.

    Clean sees clean causally. Noisy sees the clean tokens before its block and, causally, the noisy ones
    of its own block. Padding sees itself only, which keeps its softmax finite. With N = 0 this is the
    plain causal batch of AR training.
    """
    rows, length = clean.shape
    text = torch.arange(length).expand(rows, length)
    positions = torch.cat([text, noisy_positions], dim=1)
    start = torch.cat([torch.full_like(text, CLEAN), starts], dim=1)
    real = torch.cat([text < lengths[:, None], starts != CLEAN], dim=1)

    query_start, query_position = start[:, :, None], positions[:, :, None]
    key_start, key_position = start[:, None, :], positions[:, None, :]
    before_block = (key_start == CLEAN) & (key_position < query_start)
    same_stream = key_start == query_start
    visible = before_block | same_stream & (key_position <= query_position)
    if clean_starts is not None:
        block = torch.cat([clean_starts, starts], dim=1)
        of_noisy = start != CLEAN
        same_block = (block[:, :, None] == block[:, None, :]) & (block != CLEAN)[:, :, None]
        visible |= same_block & (of_noisy[:, :, None] == of_noisy[:, None, :])
    visible = visible & real[:, None, :] & real[:, :, None]
    visible |= torch.eye(positions.shape[1], dtype=torch.bool)
    return Layout(
        ids=torch.cat([clean, noisy], dim=1),
        positions=positions,
        visible=visible,
        roles=torch.where(real, torch.where(start == CLEAN, Role.CLEAN, Role.NOISY), Role.PADDING),
        groups=_block_numbers(start),
    )


def _block_numbers(starts: Tensor) -> Tensor:
    """[rows, n] the number of each position's block in its text; NO_GROUP of the clean ones."""
    first = torch.zeros_like(starts, dtype=torch.bool)
    first[:, 1:] = (starts[:, 1:] != starts[:, :-1]) & (starts[:, 1:] != CLEAN)
    first[:, 0] = starts[:, 0] != CLEAN
    return torch.where(starts == CLEAN, NO_GROUP, first.cumsum(dim=1) - 1)
