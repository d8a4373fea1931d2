"""Answers of the harness with their tokens and forwards."""

from collections.abc import Iterable
from typing import NamedTuple, Self


class Generated(str):
    """The text of an answer, truncated at its stop string, with the tokens and forwards of its run.

    The harness keeps answers as they are, also in its cache, so these fields survive.
    """

    tokens: int
    forwards: int

    def __new__(cls, text: str, tokens: int = 0, forwards: int = 0) -> Self:
        self = super().__new__(cls, text)
        self.tokens, self.forwards = tokens, forwards
        return self


class Speed(NamedTuple):
    """The numbers of a task's answers, tokens and forwards."""

    answers: int
    tokens: int
    forwards: int

    @property
    def tokens_per_forward(self) -> float:
        return self.tokens / self.forwards

    def record(self) -> dict[str, float]:
        return self._asdict() | {"tokens_per_forward": self.tokens_per_forward}


def speed(answers: Iterable[object]) -> Speed | None:
    """Return the totals of answers; None without answers, or if another model generated them."""
    answers = list(answers)
    if not answers or not all(isinstance(answer, Generated) for answer in answers):
        return None
    return Speed(len(answers), sum(a.tokens for a in answers), sum(a.forwards for a in answers))
