"""The input of one forward: token ids, positions, and who sees whom.

A `Layout` is all a forward of this project ever gets beside the weights and the cache. Because the
same object is handed to the model and to whoever draws it, the mask that is drawn is the mask that ran.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """Inputs of one forward over `n` new positions behind `past` cached ones.

    ids: [rows, n] token ids.
    positions: [rows, n] position ids, counted from the start of the text.
    visible: [rows, n, past + n] bool; `visible[r, q, k]` says whether new position q sees column k,
        where columns 0 … past-1 are the cached tokens and the rest are the new positions themselves.
    """

    ids: Tensor
    positions: Tensor
    visible: Tensor

    def to(self, device: torch.device) -> Layout:
        return Layout(self.ids.to(device), self.positions.to(device), self.visible.to(device))


def causal(tokens: Sequence[int], past: int = 0) -> Layout:
    """`tokens` behind `past` cached ones, each seeing itself and everything before it."""
    count = len(tokens)
    return Layout(
        ids=torch.tensor([tokens]),
        positions=torch.arange(past, past + count)[None],
        visible=torch.ones(1, count, past + count, dtype=torch.bool).tril(past),
    )


def window(tokens: Sequence[int], masks: int, mask_id: int, past: int = 0) -> Layout:
    """`[tokens, MASK × masks]`: the sliding window of MARS (section 3.3), causal like any other text.

    The last token predicts slot 1, the i-th mask slot i + 1.
    """
    return causal([*tokens, *[mask_id] * masks], past)


def verification(
    tokens: Sequence[int],
    drafts: Sequence[int],
    masks: int,
    mask_id: int,
    past: int = 0,
    linear: bool = False,
) -> Layout:
    """`[tokens, d1 … dK | g0 | … | gK]`: drafts to verify, and masks that go on behind each prefix of them.

    Group gj holds `masks` masks that see the cache, `tokens`, d1 … dj and, causally, their own group;
    their positions go on from dj. In the linear layout only gK exists: cheaper, but it drafts nothing
    unless every draft holds.
    """
    offsets, inside = _groups(len(tokens), len(drafts), masks, linear)
    count, real = len(offsets), len(tokens) + len(drafts)
    return Layout(
        ids=torch.tensor([[*tokens, *drafts, *[mask_id] * (count - real)]]),
        positions=past + offsets[None],
        visible=torch.cat([torch.ones(count, past, dtype=torch.bool), inside], dim=1)[None],
    )


@functools.lru_cache(maxsize=1024)  # the same few shapes come at every pass
def _groups(tokens: int, drafts: int, masks: int, linear: bool) -> tuple[Tensor, Tensor]:
    """Offsets [n] from the first real token, and who sees whom among the new positions, [n, n]."""
    real = tokens + drafts
    ends = [real] if linear else range(tokens, real + 1)  # how many real tokens each group sees
    offsets = torch.arange(real + len(ends) * masks)
    inside = torch.zeros(len(offsets), len(offsets), dtype=torch.bool)
    inside[:real, :real] = torch.ones(real, real, dtype=torch.bool).tril()
    for group, end in enumerate(ends):
        rows = slice(real + group * masks, real + (group + 1) * masks)
        inside[rows, :end] = True
        inside[rows, rows] = torch.ones(masks, masks, dtype=torch.bool).tril()
        offsets[rows] = torch.arange(end, end + masks)
    return offsets, inside


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
        block diffusion: within a block everybody sees everybody, in both streams.

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
    return Layout(ids=torch.cat([clean, noisy], dim=1), positions=positions, visible=visible)


def denoising(clean: Sequence[int], block: Sequence[int], past: int, causal_until: int) -> Layout:
    """`[clean ; block]`: one step of block diffusion behind `past` cached positions.

    The `block` is the one being filled, masks among its ids; everybody in it sees everybody and all that
    came before. `clean` is what the cache does not hold yet: up to `causal_until` tokens of a prompt, which
    see each other causally, then a finished block, whose tokens all see each other.
    """
    known, total = len(clean), len(clean) + len(block)
    visible = torch.ones(total, total, dtype=torch.bool).tril()
    visible[causal_until:known, causal_until:known] = True
    visible[known:, :] = True
    return Layout(
        ids=torch.tensor([[*clean, *block]]),
        positions=torch.arange(past, past + total)[None],
        visible=torch.cat([torch.ones(total, past, dtype=torch.bool), visible], dim=1)[None],
    )
