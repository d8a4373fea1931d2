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


@dataclass(frozen=True)
class Reading:
    """One slot: its token, the token's score, and candidates, best first, with their probabilities.

    source: where the token came from first, one of `trace.SOURCES`.
    """

    token: int
    score: float
    candidates: list[int]
    probabilities: list[float]
    source: str = "model"


def marked(readings: Sequence[Reading], source: str) -> list[Reading]:
    """The same readings, with where their tokens came from."""
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
    """One `Reading` per row of [rows, vocabulary] logits; `positions` are their places, for `sampling`."""
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
    best = logits.softmax(-1).topk(min(ALTERNATIVES, logits.shape[-1]))
    if sampling is None or not len(logits):
        tokens = best.indices[:, 0]
    else:
        tokens = sampling.choose(logits, positions)
    chosen = torch.stack([tokens.float(), acceptance.scores(logits, tokens)], dim=1)
    return torch.cat([chosen, best.indices.float(), best.values], dim=1)


def fetch(measured: Tensor) -> list[Reading]:
    """The readings that `measure` left on the device, in the one transfer of a forward: the host waits for
    the device here and nowhere else."""
    count = measured.shape[1] // 2 - 1
    return [
        Reading(int(token), score, [int(candidate) for candidate in rest[:count]], rest[count:])
        for token, score, *rest in measured.tolist()
    ]
