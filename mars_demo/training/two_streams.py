"""The two streams of a conversation: its clean tokens and the noisy copy of its answers (section 3.2)."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from mars_demo.core.layout import NO_GROUP, Role
from mars_demo.training.corpus import TokenizedConversation

CLEAN = -1  # the block start of a position that belongs to no block
IGNORE = -100
SLOT_DECAY = 1.0  # by default
UNKNOWN, OTHER, OWN = -1, 0, 1  # whether the reference model wrote the answers

# A position of the two streams of a conversation. `ids`, `positions`, `roles` and `groups` are as in a
# `Layout`, and `spans` are the two half-open ranges of columns that it sees. It predicts its target token,
# or `IGNORE`, with a loss weight within its stream, in a slot of the window: 1 for the clean stream, up to
# block size + 1 for the noisy one. `own` is one of the numbers above.
POSITION = np.dtype(
    [(name, np.int64) for name in ("ids", "positions", "roles", "groups", "targets", "slots")]
    + [("spans", np.int64, (2, 2)), ("weights", np.float32), ("own", np.int8)]
)
TwoStreams = np.ndarray  # [n] of `POSITION`: the clean stream, followed by the noisy one, `[x ; x̃]`


def ar(conversation: TokenizedConversation) -> TwoStreams:
    """Return the clean stream alone, for supervised fine-tuning on the answers."""
    nothing = np.zeros(0, dtype=np.int64)
    return _streams(conversation, nothing, nothing, nothing, nothing, nothing, np.zeros(0))


def mars(
    conversation: TokenizedConversation,
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


def diffusion(
    conversation: TokenizedConversation, block_size: int, mask_id: int, rng: random.Random
) -> TwoStreams:
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
    return response & ~np.concatenate([[False], response[:-1]])


def _streams(
    conversation: TokenizedConversation,
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
    streams = np.zeros(length + count, POSITION)
    clean, copy = streams[:length], streams[length:]
    columns, (first, end) = np.arange(length + count), _edges(starts)
    clean["ids"], copy["ids"] = ids, noisy
    clean["positions"], copy["positions"] = columns[:length], positions
    clean["roles"], copy["roles"] = Role.CLEAN, Role.NOISY
    clean["groups"], copy["groups"] = NO_GROUP, np.cumsum(columns[:count] == first) - 1
    clean["slots"], copy["slots"] = 1, slots
    clean["weights"], copy["weights"] = 1, weights
    clean["targets"], copy["targets"] = IGNORE, targets
    streams["own"] = UNKNOWN if conversation.own is None else conversation.own
    streams["spans"][:, 1, 1] = columns + 1
    copy["spans"][:, 0, 1], copy["spans"][:, 1, 0] = starts, length + first
    if clean_blocks is None:
        predicts = np.flatnonzero(response[1:])
        clean["targets"][predicts] = ids[predicts + 1]
    else:
        inside = clean_blocks != CLEAN
        clean["spans"][inside, 1, 1] = _edges(clean_blocks)[1][inside]
        copy["spans"][:, 1, 1] = length + end
    return streams


def _edges(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and end columns of each column's block, a run of equal numbers."""
    bounds = np.flatnonzero(np.concatenate([[True], blocks[1:] != blocks[:-1]])[: len(blocks)])
    sizes = np.diff(np.append(bounds, len(blocks)))
    return np.repeat(bounds, sizes), np.repeat(bounds + sizes, sizes)
