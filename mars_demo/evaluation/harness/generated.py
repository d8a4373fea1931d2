"""An answer that knows what it took."""

from collections.abc import Iterable
from typing import NamedTuple, Self


class Generated(str):
    """The text of an answer, truncated at its stop string, with the tokens and forwards of its run.

    The harness keeps answers as they are, in its cache too, so they still know their forwards.
    """

    tokens: int
    forwards: int

    def __new__(cls, text: str, tokens: int = 0, forwards: int = 0) -> Self:
        self = super().__new__(cls, text)
        self.tokens, self.forwards = tokens, forwards
        return self


class Speed(NamedTuple):
    """Answers of a task, their accepted tokens and their forwards."""

    answers: int
    tokens: int
    forwards: int

    @property
    def tokens_per_forward(self) -> float:
        return self.tokens / self.forwards

    def record(self) -> dict[str, float]:
        return self._asdict() | {"tokens_per_forward": self.tokens_per_forward}


def speed(answers: Iterable[object]) -> Speed | None:
    """Return the sums over answers; None without any, or if another model generated them."""
    found = list(answers)
    if not found or not all(isinstance(answer, Generated) for answer in found):
        return None
    return Speed(len(found), sum(a.tokens for a in found), sum(a.forwards for a in found))
