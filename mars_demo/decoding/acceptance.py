"""The rule of acceptance: a criterion that scores slots and a threshold that counts from the left.

Every mode with a threshold, batches, evaluation and the exported decoder decide with this file, which is
carried beside exported weights and so needs nothing else of this project.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line lists the criteria without importing torch
    from torch import Tensor

Tau = float | Callable[[], float]  # a callable is read again at every forward: that is the live knob


def probability(p: Tensor, tokens: Tensor) -> Tensor:
    """Return p(token), the paper's confidence (section 3.3) if the choice is greedy."""
    return p.gather(-1, tokens[:, None])[:, 0]


def entropy(p: Tensor, tokens: Tensor) -> Tensor:
    """Return exp(-H) · p(token) / p(most probable token), H the entropy of the distribution in nats.

    exp(-H) is 1 for a distribution that is certain and 1/k for one that is even over k tokens, so a
    threshold τ on it is the paper's "accept while H ≤ -ln τ". The fraction is 1 for a greedy choice.
    """
    minus_entropy = (p * p.clamp(min=1e-38).log()).sum(-1)  # 0 · log 0 is 0
    chosen = p.gather(-1, tokens[:, None])[:, 0]
    return minus_entropy.exp() * chosen / p.amax(-1)


def margin(p: Tensor, tokens: Tensor) -> Tensor:
    """Return p(token) - p(most probable other token), at least 0."""
    others = p.scatter(-1, tokens[:, None], 0.0).amax(-1)
    return (p.gather(-1, tokens[:, None])[:, 0] - others).clamp(min=0)


@dataclass(frozen=True)
class Criterion:
    """How slots are scored: from [rows, vocabulary] probabilities in float32 and the [rows] tokens chosen
    or drawn, to [rows] scores of these tokens from 0 to 1, of which 1 is certain."""

    title: str
    score: Callable[[Tensor, Tensor], Tensor]


CRITERIA = {
    "probability": Criterion("probability of the token", probability),
    "entropy": Criterion("entropy of the distribution", entropy),
    "margin": Criterion("margin over the next best token", margin),
}


@dataclass(frozen=True)
class Acceptance:
    """Accept from the left while score ≥ τ; the first slot, which an AR forward would give too, always.

    At τ = 1 exactly the first slot is accepted: a score in floating point can reach 1, so that is a case of
    its own and no comparison. A τ of None means the same.
    """

    criterion: str = "probability"
    tau: Tau | None = 0.95

    def __post_init__(self):
        """
        Raises:
            ValueError: if there is no such criterion, or τ is a number outside 0 to 1.
        """
        if self.criterion not in CRITERIA:
            raise ValueError(f"Unknown criterion {self.criterion!r}. Choose from {', '.join(CRITERIA)}.")
        if not callable(self.tau):
            self.threshold()

    def threshold(self) -> float | None:
        """τ as it is now.

        Raises:
            ValueError: if it is outside 0 to 1.
        """
        tau = self.tau() if callable(self.tau) else self.tau
        if tau is not None and not 0 <= tau <= 1:
            raise ValueError(f"τ must be between 0 and 1, not {tau}.")
        return tau

    def scores(self, probabilities: Tensor, tokens: Tensor) -> Tensor:
        """[rows] scores of the tokens chosen from distributions, [rows, vocabulary]."""
        return CRITERIA[self.criterion].score(probabilities, tokens)


def admits(score: float, threshold: float | None) -> bool:
    """Return whether a slot that is not the first may be accepted."""
    return threshold is not None and score >= threshold < 1


def accepted(scores: Sequence[float], threshold: float | None) -> int:
    """Return how many leading slots are accepted (section 3.3)."""
    admitted = itertools.takewhile(lambda score: admits(score, threshold), scores[1:])
    return 1 + sum(1 for _ in admitted)


def several(threshold: float | None) -> bool:
    """Return whether more than one slot can be accepted; if not, masks need not be computed."""
    return threshold is not None and threshold < 1
