"""The two streams of a conversation: its clean tokens and the noisy copy of its answers (section 3.2)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mars_demo.core.layout import NO_GROUP
from mars_demo.training.corpus import Conversation

CLEAN = -1  # the block start of a position that belongs to no block
IGNORE = -100
SLOT_DECAY = 1.0  # by default


@dataclass(frozen=True)
class TwoStreams:
    """The clean stream of a conversation, followed by its noisy stream: `[x ; x̃]`, in n positions.

    ids, positions, groups: [n] as in a `Layout`.
    spans: [n, 4] two half-open ranges of columns that a position sees, counted from the first column.
    targets: [n] the token that a position predicts, or `IGNORE`.
    slots: [n] the slot of a window that it predicts: 1 for the clean stream, up to block size + 1 for the
        noisy one.
    weights: [n] the loss weights within a stream.
    clean_length: the length of the clean stream.
    own: whether the reference model wrote the answers, if known.
    """

    ids: np.ndarray
    positions: np.ndarray
    groups: np.ndarray
    spans: np.ndarray
    targets: np.ndarray
    slots: np.ndarray
    weights: np.ndarray
    clean_length: int
    own: bool | None

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def clean(self) -> TwoStreams:
        """Return the clean stream alone; it never sees the noisy one."""
        names = ("ids", "positions", "groups", "spans", "targets", "slots", "weights")
        parts = (getattr(self, name)[: self.clean_length] for name in names)
        return TwoStreams(*parts, self.clean_length, self.own)


def ar(conversation: Conversation) -> TwoStreams:
    """Return the clean stream alone, for supervised fine-tuning on the answers."""
    nothing = np.zeros(0, dtype=np.int64)
    return _streams(conversation, nothing, nothing, nothing, nothing, nothing, np.zeros(0))


def mars(
    conversation: Conversation,
    block_size: int,
    mask_id: int,
    rng: random.Random,
    fixed_blocks: bool = False,
    slot_decay: float = SLOT_DECAY,
) -> TwoStreams:
    """Return both streams, with a mask at every answer position but the last.

    The mask at position p predicts the token at p + 1, like every other position. Prompt positions have
    no noisy copy, because no trained position would see it, and each answer has a random block phase, or
    none with `fixed_blocks`.

    The target of slot s ≥ 2 has the loss weight `slot_decay` to the power of s - 2: slots are accepted from
    the left, so a later one matters only if the earlier ones were right.
    """
    ids, response = np.array(conversation.ids), np.array(conversation.response)
    phases = [0 if fixed_blocks else rng.randrange(block_size) for _ in range(_opens(response).sum())]
    blocks = block_starts(response, block_size, phases)
    kept = np.flatnonzero(response[:-1] & response[1:])
    slots = kept - blocks[kept] + 2
    masks = np.full(len(kept), mask_id)
    weights = slot_decay ** (slots - 2.0)
    return _streams(conversation, masks, kept, blocks[kept], ids[kept + 1], slots, weights)


def diffusion(conversation: Conversation, block_size: int, mask_id: int, rng: random.Random) -> TwoStreams:
    """Return the streams of block diffusion, the paper's baseline (BD3-LM), with bidirectional blocks.

    Blocks begin with the answer. In each block m tokens, uniformly from 1 to all, become masks and weigh
    1/m of the block each, which makes the loss the bound on the likelihood. A mask predicts the token at
    its own position; the clean stream, which later blocks see, has no loss.
    """
    ids, response = np.array(conversation.ids), np.array(conversation.response)
    blocks = block_starts(response, block_size, [0] * _opens(response).sum())
    copied = np.flatnonzero(blocks != CLEAN)
    starts = blocks[copied]
    masked, slots, weights = np.zeros(len(ids), dtype=bool), [], []
    for start in np.unique(starts):
        members = copied[starts == start].tolist()
        chosen = rng.sample(members, rng.randint(1, len(members)))
        masked[chosen] = True
        slots += range(1, len(members) + 1)
        weights += [len(members) / len(chosen)] * len(members)
    hidden = masked[copied]
    noisy, targets = np.where(hidden, mask_id, ids[copied]), np.where(hidden, ids[copied], IGNORE)
    return _streams(conversation, noisy, copied, starts, targets, slots, weights, blocks)


def block_starts(response: Sequence[bool], block_size: int, phases: Sequence[int]) -> np.ndarray:
    """Return the start of each position's block, the position of its first mask; `CLEAN` outside blocks.

    Blocks are counted from the first position of each response, so that no block reaches into a prompt.
    A phase p in 0 … block_size-1, one per response, shortens that response's first block by p: a sliding
    window can start anywhere, and so should training blocks.
    """
    response = np.array(response, dtype=bool)
    opens = _opens(response)
    inside = np.flatnonzero(response)
    number = opens.cumsum()[inside] - 1
    origin, phase = np.flatnonzero(opens)[number], np.array(phases, dtype=np.int64)[number]
    starts = np.full(len(response), CLEAN)
    starts[inside] = np.maximum(
        origin, origin + (inside - origin + phase) // block_size * block_size - phase
    )
    return starts


def _opens(response: np.ndarray) -> np.ndarray:
    """Return where responses begin."""
    return response & ~np.concatenate([[False], response[:-1]])


def _streams(
    conversation: Conversation,
    noisy: np.ndarray,
    positions: np.ndarray,
    starts: np.ndarray,
    targets: np.ndarray,
    slots: Sequence[int],
    weights: Sequence[float],
    clean_blocks: np.ndarray | None = None,
) -> TwoStreams:
    """Return the two streams, given the [k] positions, block starts and targets of the noisy one.

    Clean positions see clean ones causally. Noisy positions see the clean tokens before their block and,
    causally, the noisy ones of their block. With `clean_blocks`, the block starts of the clean tokens for
    block diffusion, within a block every position sees every other, in both streams, and the clean stream
    has no targets.
    """
    ids, response = np.array(conversation.ids), np.array(conversation.response)
    length, count = len(ids), len(noisy)
    text, columns = np.arange(length), length + np.arange(count)
    first, end = _edges(starts)
    spans = np.zeros((length + count, 4), dtype=np.int64)
    if clean_blocks is None:
        spans[:length, 3], spans[length:, 3] = text + 1, columns + 1
        following = np.where(np.append(response[1:], False), np.append(ids[1:], IGNORE), IGNORE)
    else:
        spans[:length, 3] = np.where(clean_blocks == CLEAN, text + 1, _edges(clean_blocks)[1])
        spans[length:, 3] = length + end
        following = np.full(length, IGNORE)
    spans[length:, 1], spans[length:, 2] = starts, length + first
    blocks = np.cumsum(np.arange(count) == first) - 1
    return TwoStreams(
        ids=np.concatenate([ids, noisy]),
        positions=np.concatenate([text, positions]),
        groups=np.concatenate([np.full(length, NO_GROUP), blocks]),
        spans=spans,
        targets=np.concatenate([following, targets]),
        slots=np.concatenate([np.ones(length, dtype=np.int64), np.array(slots, dtype=np.int64)]),
        weights=np.concatenate([np.ones(length), weights]),
        clean_length=length,
        own=conversation.own,
    )


def _edges(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and end columns of each column's block, a run of equal numbers."""
    bounds = np.flatnonzero(np.concatenate([[True], blocks[1:] != blocks[:-1]])[: len(blocks)])
    sizes = np.diff(np.append(bounds, len(blocks)))
    return np.repeat(bounds, sizes), np.repeat(bounds + sizes, sizes)
