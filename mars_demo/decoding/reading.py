"""Forwards and their readings: the chosen token of each slot, its score and the alternatives."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from math import isfinite

import torch
from torch import Tensor

from mars_demo.core.acceptance import Acceptance
from mars_demo.core.layout import Layout
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.runtime.engine import Engine

ALTERNATIVES = 5  # candidates recorded for each slot
LARGE = 16384  # vocabulary size from which torch computes several slots with threads
BLOCK = 128  # tokens of a block in `most_probable`
FORCED = "forced"  # the source of tokens that a grammar forces


@dataclass(frozen=True)
class Forward:
    """A request for a forward: a layout of one sequence, with readings of its positions from `first` on."""

    layout: Layout
    first: int = 0

    @property
    def positions(self) -> list[int]:
        """Return the position ids of the positions from `first` on."""
        return self.layout.positions[0, self.first :].tolist()


@dataclass(frozen=True)
class Reading:
    """The reading of a slot: its token, score, and candidates, best first, with their probabilities."""

    token: int
    score: float
    candidates: list[int]
    probabilities: list[float]
    source: str = "model"  # the source of the token, one of `fields.SOURCES`


@dataclass(frozen=True)
class Reader:
    """The reading of a forward's logits: by which criterion, and how tokens are sampled, if they are."""

    acceptance: Acceptance = Acceptance()
    sampling: Sampling | None = None

    def __call__(self, logits: Tensor, forward: Forward) -> list[Reading]:
        """Return the readings of logits [slots, vocabulary] of the positions of a forward."""
        return self.read(logits, forward.positions)

    def read(self, logits: Tensor, positions: Sequence[int]) -> list[Reading]:
        """Return the readings of logits [slots, vocabulary] for tokens at `positions`."""
        return read_measured(measure(logits, self.acceptance, positions, self.sampling))


def marked(readings: Sequence[Reading], source: str) -> list[Reading]:
    """Return the readings with another source, except for forced tokens."""
    return [r if r.source == FORCED else replace(r, source=source) for r in readings]


def forced(token: int) -> Reading:
    """Return the reading of a token that a grammar forces."""
    return Reading(token, 1.0, [token], [1.0], FORCED)


def compute(engine: Engine, forward: Forward, read: Reader) -> tuple[list[Reading], dict[str, float]]:
    """Run a forward; return the readings of its positions from `first` on, and the times of its two parts.

    A GPU computes asynchronously, so it has no such times.
    """
    started = time.perf_counter()
    logits = engine.forward(forward.layout, forward.first)
    computed = time.perf_counter()
    readings = read(logits, forward)
    ended = time.perf_counter()
    times = {"model_ms": 1000 * (computed - started), "read_ms": 1000 * (ended - computed)}
    return readings, times if engine.decoder.device.type == "cpu" else {}


def count_verified(drafts: Sequence[int], own: Sequence[Reading]) -> int:
    """Return the number of leading drafts that equal the model's own choices."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1].token, zip(drafts, own)))


def measure(
    logits: Tensor,
    acceptance: Acceptance,
    positions: Sequence[int] = (),
    sampling: Sampling | None = None,
) -> Tensor:
    """Return the readings of logits [slots, vocabulary] as a tensor [slots, 2 + 2k] on their device.

    A row holds the token, its score, k candidates and their k probabilities. float32 represents token ids
    below 2²⁴ exactly.
    """
    parts = _parts(logits)
    p = torch.empty_like(logits)
    for part in parts:
        torch.softmax(logits[part], -1, out=p[part])
    candidates = most_probable(p, min(ALTERNATIVES, p.shape[-1]))
    if sampling is None or not len(logits):
        tokens = candidates[:, 0]
    else:
        tokens = torch.cat([sampling.choose(logits[part], positions[part]) for part in parts])
    scores = torch.cat([acceptance.scores(p[part], tokens[part]) for part in parts])
    chosen = torch.stack([tokens.float(), scores], dim=1)
    return torch.cat([chosen, candidates.float(), p.gather(-1, candidates)], dim=1)


def _parts(logits: Tensor) -> list[slice]:
    """Return the slots that are read together: all, or single ones of a large vocabulary on a CPU.

    For several of these torch starts threads, which then spin on the cores of the next forward. That costs
    far more than they save.
    """
    is_alone = logits.device.type == "cpu" and logits.shape[-1] >= LARGE
    alone = [slice(slot, slot + 1) for slot in range(len(logits))]
    return alone if is_alone and alone else [slice(None)]


def most_probable(p: Tensor, count: int) -> Tensor:
    """Return the most probable tokens [slots, count] of probabilities [slots, vocabulary], best first.

    They are all in the `count` blocks with the largest maxima, so on a CPU a large vocabulary need not be
    sorted.
    """
    vocabulary = p.shape[-1]
    if p.device.type != "cpu" or vocabulary < LARGE or vocabulary % BLOCK:
        return p.topk(count).indices
    blocks = p.unflatten(-1, (-1, BLOCK))
    largest = p.new_empty(blocks.shape[:2])
    for part in _parts(p):
        # Parts too small for torch to start threads.
        for some, most in zip(
            blocks[part].split(LARGE // BLOCK, 1), largest[part].split(LARGE // BLOCK, 1)
        ):
            torch.amax(some, -1, out=most)
    best = largest.topk(count).indices
    inside = blocks.gather(1, best[..., None].expand(-1, -1, BLOCK)).flatten(1).topk(count).indices
    return best.gather(-1, inside // BLOCK) * BLOCK + inside % BLOCK


def read_measured(measured: Tensor) -> list[Reading]:
    """Return the readings that `measure` left on the device.

    This is the only transfer of a forward, and the only time that the host waits for the device.

    Raises:
        ValueError: if the model computed values that are not numbers.
    """
    count, rows = measured.shape[1] // 2 - 1, measured.tolist()
    if not all(map(isfinite, chain.from_iterable(rows))):
        raise ValueError(
            "The model computed values that are not numbers. Its weights may be broken, or too large for "
            "its precision: try float32."
        )
    return [
        Reading(int(token), score, [int(candidate) for candidate in rest[:count]], rest[count:])
        for token, score, *rest in rows
    ]
