"""An answer that knows what it took."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Generated(str):
    """The text of an answer, cut at its stop string, and the tokens and forwards of its run.

    The harness keeps answers as they are, in its cache too. So whatever it hands back, of this run or of an
    interrupted one, still says how many forwards it took.
    """

    tokens: int
    forwards: int

    def __new__(cls, text: str, tokens: int = 0, forwards: int = 0) -> Generated:
        self = super().__new__(cls, text)
        self.tokens, self.forwards = tokens, forwards
        return self


class Speed(NamedTuple):
    """Answers of a task, their accepted tokens, end tokens included, and the forwards that these took."""

    answers: int
    tokens: int
    forwards: int

    @property
    def tokens_per_forward(self) -> float:
        return self.tokens / self.forwards

    def record(self) -> dict[str, float]:
        return self._asdict() | {"tokens_per_forward": self.tokens_per_forward}


def speed(answers: Iterable[object]) -> Speed | None:
    """What the answers took together; None without any, or if some model made them that did not say."""
    found = list(answers)
    if not found or not all(isinstance(answer, Generated) for answer in found):
        return None
    return Speed(len(found), sum(a.tokens for a in found), sum(a.forwards for a in found))
