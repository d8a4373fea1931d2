"""The acceptance rule: a criterion that scores slots, and a threshold applied from the left.

All modes with a threshold, batches, evaluation and the exported decoder use this file. Exported checkpoints
include a copy of it, so it imports nothing else of this project.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line lists the criteria without importing torch
    from torch import Tensor

TAU = 0.95  # by default
Tau = float | Callable[[], float]  # a callable is read again at every forward, for the live τ slider


def probability(p: Tensor, tokens: Tensor) -> Tensor:
    """Return p(token), which under greedy decoding is the paper's confidence (section 3.3)."""
    return p.gather(-1, tokens[:, None])[:, 0]


def entropy(p: Tensor, tokens: Tensor) -> Tensor:
    """Return exp(-H) · p(token) / p(most probable token), H the entropy of the distribution in nats.

    exp(-H) is 1 for a one-hot distribution and 1/k for a uniform one over k tokens, so a threshold τ on it
    is the paper's "accept while H ≤ -ln τ". The fraction is 1 under greedy decoding.
    """
    # 0 · log 0 is 0. The bound is a normal number, since some devices flush smaller ones to 0.
    minus_entropy = (p * p.clamp(min=1.2e-38).log()).sum(-1)
    chosen = p.gather(-1, tokens[:, None])[:, 0]
    return minus_entropy.exp() * chosen / p.amax(-1)


def margin(p: Tensor, tokens: Tensor) -> Tensor:
    """Return p(token) - p(most probable other token), at least 0."""
    others = p.scatter(-1, tokens[:, None], 0.0).amax(-1)
    return (p.gather(-1, tokens[:, None])[:, 0] - others).clamp(min=0)


@dataclass(frozen=True)
class Criterion:
    """A function that scores slots.

    score: maps float32 probabilities [slots, vocabulary] and the chosen tokens [slots] to scores [slots]
        from 0 to 1 (certain).
    """

    title: str
    score: Callable[[Tensor, Tensor], Tensor]


# An entry here is all that a new criterion needs: commands, page and sweeps read this table.
CRITERIA = {
    "probability": Criterion("probability of the token", probability),
    "entropy": Criterion("entropy of the distribution", entropy),
    "margin": Criterion("margin over the next best token", margin),
}


@dataclass(frozen=True)
class Acceptance:
    """The acceptance rule: slots are accepted from the left while their score is at least τ.

    The first slot, which an AR forward predicts too, is always accepted. τ = 1 or None accepts only the
    first slot; that is a special case, because a floating-point score can reach 1.

    Raises:
        ValueError: if the criterion is unknown, or τ is a number outside 0 to 1.
    """

    criterion: str = "probability"
    tau: Tau | None = TAU

    def __post_init__(self):
        if self.criterion not in CRITERIA:
            raise ValueError(f"Unknown criterion {self.criterion!r}. Choose from {', '.join(CRITERIA)}.")
        if not callable(self.tau):
            self.threshold()

    def threshold(self) -> float | None:
        """Return the current τ.

        Raises:
            ValueError: if it is outside 0 to 1.
        """
        tau = self.tau() if callable(self.tau) else self.tau
        if tau is not None and not 0 <= tau <= 1:
            raise ValueError(f"τ must be between 0 and 1, not {tau}.")
        return tau

    def scores(self, probabilities: Tensor, tokens: Tensor) -> Tensor:
        """Return the scores [slots] of tokens chosen from distributions [slots, vocabulary]."""
        return CRITERIA[self.criterion].score(probabilities, tokens)


def admits(score: float, threshold: float | None) -> bool:
    """Return whether a slot after the first may be accepted."""
    return threshold is not None and score >= threshold < 1


def accepted(scores: Sequence[float], threshold: float | None) -> int:
    """Return the number of accepted leading slots (section 3.3)."""
    admitted = itertools.takewhile(lambda score: admits(score, threshold), scores[1:])
    return 1 + sum(1 for _ in admitted)


def several(threshold: float | None) -> bool:
    """Return whether a forward can accept more than one slot; if not, it needs no masks."""
    return threshold is not None and threshold < 1
