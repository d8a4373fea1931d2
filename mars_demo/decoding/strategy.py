"""The interface of strategies: generators that request forwards and return passes."""

import itertools
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from mars_demo.core.acceptance import Acceptance
from mars_demo.core.layout import Layout
from mars_demo.decoding.answer import Outcome
from mars_demo.decoding.reading import Reading, measure, read_measured
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.runtime.engine import Engine


@dataclass(frozen=True)
class Forward:
    """A request for a forward: a layout of one sequence, with readings of its positions from `first` on."""

    layout: Layout
    first: int = 0

    @property
    def positions(self) -> list[int]:
        """Return the position ids of the positions from `first` on."""
        return self.layout.positions[0, self.first :].tolist()


# A module of `decoding.strategies` has a function `strategy(answer, request)`, which yields a `Forward`,
# receives its readings, and yields an `Outcome`, repeatedly. The caller has the model and sets
# `answer.cached`: `decode` drives one strategy with an engine, `serving` a batch of them.
Strategy = Generator[Forward | Outcome, list[Reading] | None, None]


def compute(
    engine: Engine, forward: Forward, acceptance: Acceptance, sampling: Sampling | None = None
) -> tuple[list[Reading], dict[str, float]]:
    """Run a forward; return the readings of its positions from `first` on, and the times of its two parts.

    A GPU computes asynchronously, so it has no such times.
    """
    started = time.perf_counter()
    logits = engine.forward(forward.layout, forward.first)
    computed = time.perf_counter()
    readings = read_measured(measure(logits, acceptance, forward.positions, sampling))
    ended = time.perf_counter()
    times = {"model_ms": 1000 * (computed - started), "read_ms": 1000 * (ended - computed)}
    return readings, times if engine.decoder.device.type == "cpu" else {}


def count_verified(drafts: Sequence[int], own: Sequence[Reading]) -> int:
    """Return the number of leading drafts that equal the model's own choices."""
    pairs = zip(drafts, own)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1].token, pairs))
