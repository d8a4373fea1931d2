"""What logits say about a slot: the token that is chosen, its score and the alternatives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mars_demo.decoding.acceptance import Acceptance
from mars_demo.decoding.sampling import Sampling

if TYPE_CHECKING:
    from mars_demo.decoding.engine import Engine
    from mars_demo.decoding.strategy import Forward

ALTERNATIVES = 5  # candidates recorded for each slot
LARGE = 16384  # a vocabulary of which torch reads several rows in parallel
BLOCK = 128  # neighbours in a large vocabulary, of which only the most probable one is compared at first


@dataclass(frozen=True)
class Reading:
    """One slot: its token, the token's score, and candidates, best first, with their probabilities."""

    token: int
    score: float
    candidates: list[int]
    probabilities: list[float]
    source: str = "model"  # where the token came from first, one of `fields.SOURCES`


def marked(readings: Sequence[Reading], source: str) -> list[Reading]:
    """Return the same readings, with where their tokens came from."""
    return [replace(reading, source=source) for reading in readings]


def compute(
    engine: Engine, wanted: Forward, acceptance: Acceptance, sampling: Sampling | None = None
) -> list[Reading]:
    """Run a forward and read what its positions from `wanted.first` on predict."""
    if sampling is None:
        return fetch(engine.forward(wanted.layout, wanted.first, greedy(acceptance.criterion)))
    logits = engine.forward(wanted.layout, wanted.first)
    return read(logits, acceptance, wanted.positions, sampling)


@functools.cache
def greedy(criterion: str) -> Callable[[Tensor], Tensor]:
    """`measure` for the most probable tokens; the same function whenever it is asked for."""
    return functools.partial(measure, acceptance=Acceptance(criterion, None))


def read(
    logits: Tensor,
    acceptance: Acceptance,
    positions: Sequence[int] = (),
    sampling: Sampling | None = None,
) -> list[Reading]:
    """Return a `Reading` per row of [rows, vocabulary] logits, at these positions of the text."""
    return fetch(measure(logits, acceptance, positions, sampling))


def measure(
    logits: Tensor,
    acceptance: Acceptance,
    positions: Sequence[int] = (),
    sampling: Sampling | None = None,
) -> Tensor:
    """[rows, 2 + 2k] the readings of [rows, vocabulary] logits, still on their device: the token, its
    score, k candidates and their k probabilities. float32 holds token ids below 2²⁴ exactly."""
    if logits.device.type == "cpu" and len(logits) > 1 and logits.shape[-1] >= LARGE:
        # For several rows torch starts its threads, which then wait for more on the cores that compute the
        # next forward. That costs far more than they save.
        rows = [
            measure(row[None], acceptance, place, sampling)
            for row, place in zip(logits, [[p] for p in positions] or [[]] * len(logits))
        ]
        return torch.cat(rows)
    p = logits.softmax(-1)
    candidates = most_probable(p, min(ALTERNATIVES, p.shape[-1]))
    greedily = sampling is None or not len(logits)
    tokens = candidates[:, 0] if greedily else sampling.choose(logits, positions)
    chosen = torch.stack([tokens.float(), acceptance.scores(p, tokens)], dim=1)
    return torch.cat([chosen, candidates.float(), p.gather(-1, candidates)], dim=1)


def most_probable(p: Tensor, count: int) -> Tensor:
    """[rows, count] the tokens with the largest of [rows, vocabulary] probabilities, best first.

    Whatever is among the largest is in one of the `count` blocks with the largest maxima, so on a CPU a
    large vocabulary need not be sorted.
    """
    vocabulary = p.shape[-1]
    if p.device.type != "cpu" or vocabulary < LARGE or vocabulary % BLOCK:
        return p.topk(count).indices
    blocks = p.unflatten(-1, (-1, BLOCK))
    parts = blocks.split(LARGE // BLOCK, dim=1)  # too small for threads, which would then wait for more
    best = torch.cat([part.amax(-1) for part in parts], dim=1).topk(count).indices
    inside = blocks.gather(1, best[..., None].expand(-1, -1, BLOCK)).flatten(1).topk(count).indices
    return best.gather(-1, inside // BLOCK) * BLOCK + inside % BLOCK


def fetch(measured: Tensor) -> list[Reading]:
    """Return the readings that `measure` left on the device, in the one transfer of a forward: the host
    waits for the device here and nowhere else."""
    count = measured.shape[1] // 2 - 1
    return [
        Reading(int(token), score, [int(candidate) for candidate in rest[:count]], rest[count:])
        for token, score, *rest in measured.tolist()
    ]
