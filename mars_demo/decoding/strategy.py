"""What a strategy is: a generator that asks for forwards and says what it made of them."""

import itertools
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from mars_demo.decoding.layout import Layout
from mars_demo.decoding.reading import Reading
from mars_demo.decoding.trace import Pass


@dataclass(frozen=True)
class Forward:
    """What a strategy wants: a layout of one row, and what its positions from `first` on predict."""

    layout: Layout
    first: int = 0

    @property
    def positions(self) -> list[int]:
        """Return where in the text those positions stand."""
        return self.layout.positions[0, self.first :].tolist()


@dataclass(frozen=True)
class Outcome:
    """What a strategy made of the readings: the pass, and how many positions of the forward stay cached."""

    step: Pass
    keep: int


# A module of `decoding.strategies` has a function `strategy(answer, prompt_ids, request, past=0)`; `past`
# counts the leading ids of the prompt that the cache already holds.
# Strategies yield a `Forward`, are sent its readings, and answer with an `Outcome`; again and again.
# Whoever drives them has the model: `decode` with an engine, `serving` with many rows at a time.
Strategy = Generator[Forward | Outcome, list[Reading] | None, None]


def count_verified(drafts: Sequence[int], own: Sequence[Reading]) -> int:
    """Return how many leading drafts are what the model itself chooses in their places."""
    pairs = zip(drafts, own)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1].token, pairs))
