"""Drafts copied from the text itself: what followed when the text last read as it does now.

Answers that quote, rewrite or list repeat what stands in the prompt or earlier in the answer. Such a copy
costs no prediction at all (prompt lookup decoding, https://github.com/apoorvumang/prompt-lookup-decoding),
and it is verified like any other draft, so it cannot change the answer.
"""

import itertools
import operator
from collections import Counter
from collections.abc import Sequence

from mars_demo.decoding.reading import Reading

SHORTEST, LONGEST = 3, 8  # tokens of a match
REACHED = 0.25  # the chance that a copied token and all before it hold must be worth its position


class Lookup:
    """A text, and the place where its last few tokens stood before, at a constant cost per token."""

    def __init__(self, ids: Sequence[int]):
        self.ids: list[int] = []
        # Where the text went on after each n-gram, the last time.
        self._after: dict[tuple[int, ...], int] = {}
        self.extend(ids)

    def extend(self, ids: Sequence[int]) -> None:
        for token in ids:
            end = len(self.ids)
            for n in range(SHORTEST, min(LONGEST, end) + 1):
                self._after[tuple(self.ids[end - n :])] = end
            self.ids.append(token)

    def find(self) -> tuple[int, int]:
        """Return how many of the last tokens stood somewhere before, at most `LONGEST`, and where the text
        went on after them the last time; (0, 0) if fewer than `SHORTEST` did."""
        for n in range(min(LONGEST, len(self.ids)), SHORTEST - 1, -1):
            if place := self._after.get(tuple(self.ids[-n:])):
                return n, place
        return 0, 0

    def follow(self, place: int, count: int) -> list[int]:
        """Return the `count` tokens from a place on; at the end the copy goes on with its own start."""
        return list(itertools.islice(itertools.cycle(self.ids[place : place + count]), count))


class Copying:
    """Chooses between copying from an answer's text and what masks predicted, forward by forward.

    longest: tokens of a copy at most; with 0 nothing is ever copied.
    """

    def __init__(self, prompt_ids: Sequence[int], longest: int):
        self.longest = longest
        self._text = Lookup(prompt_ids if longest else ())
        self._match = 0  # before the copy that the last forward verified
        self._tried, self._held = Counter(), Counter()  # copied tokens, by the match before them

    def next_draft(
        self, accepted: Sequence[Reading], masked: Sequence[Reading], sent: int = 0
    ) -> list[Reading]:
        """Return the draft for the next forward: the one of which more tokens should hold.

        accepted: the tokens that this forward adds: what held of its draft, and the model's own choice.
        masked: what masks predict after them.
        sent: how many tokens of the last draft this forward verified.
        """
        if not self.longest:
            return list(masked)
        if self._match:
            held = len(accepted) - 1
            self._held[self._match] += held
            self._tried[self._match] += min(held + 1, sent)
        self._text.extend([reading.token for reading in accepted])
        match, copy = self._copy()
        chosen = expected(copy) > expected(masked)
        self._match = match if chosen else 0
        return copy if chosen else list(masked)

    def _copy(self) -> tuple[int, list[Reading]]:
        """Return a match and what to copy after it while a token is likely enough to be reached."""
        match, place = self._text.find()
        if not match:
            return 0, []
        # After a match of n tokens, about n of n + 2 copied ones hold; more is known as the answer grows.
        chance = (match + self._held[match]) / (match + 2 + self._tried[match])
        reached = itertools.accumulate(itertools.repeat(chance, self.longest), operator.mul)
        count = sum(share >= REACHED for share in reached)
        return match, [Reading(token, chance, [], [], "copy") for token in self._text.follow(place, count)]


def expected(draft: Sequence[Reading]) -> float:
    """Return how many tokens of a draft should hold, if each has its score as chance after the others."""
    return sum(itertools.accumulate((reading.score for reading in draft), operator.mul))
