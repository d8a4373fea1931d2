"""N-gram drafts: the tokens that followed the last occurrence of the latest tokens.

Answers that quote, rewrite or list repeat parts of the prompt or of the answer. Such a draft costs no
prediction (prompt lookup decoding, https://github.com/apoorvumang/prompt-lookup-decoding), and it is
verified like any other draft, so it cannot change the answer.
"""

import itertools
import operator
from collections import Counter
from collections.abc import Sequence

import numpy as np

from mars_demo.decoding.reading import Reading

SHORTEST, LONGEST = 3, 8  # tokens of a match
REACHED = 0.25  # a draft ends where the chance that all its tokens are accepted falls below this


def earlier(ids: Sequence[int]) -> tuple[int, int]:
    """Return the length of the longest match of the latest tokens, and the position after its last one.

    A match has `SHORTEST` to `LONGEST` tokens; without one, return (0, 0).
    """
    text = np.asarray(ids)
    ends = np.arange(len(text) - 1)  # last positions of earlier n-grams that equal the latest one
    match = 0, 0
    for n in range(1, min(LONGEST, len(text)) + 1):
        ends = ends[ends >= n - 1]
        ends = ends[text[ends - n + 1] == text[-n]]
        if not len(ends):
            break
        if n >= SHORTEST:
            match = n, int(ends[-1]) + 1
    return match


def continued(ids: Sequence[int], place: int, count: int) -> list[int]:
    """Return `count` tokens from `place` on; at the end of the text, start again at `place`."""
    return list(itertools.islice(itertools.cycle(ids[place : place + count]), count))


class PromptLookup:
    """A chooser between n-gram drafts and the drafts that masks predicted, forward by forward.

    longest: the most tokens of an n-gram draft; 0 switches them off.
    """

    def __init__(self, longest: int):
        self.longest = longest
        self._match = 0  # length of the match of the n-gram draft that the last forward verified
        self._tried, self._accepted = Counter(), Counter()  # verified and accepted tokens by match length

    def next_draft(
        self, text: Sequence[int], accepted: Sequence[Reading], masked: Sequence[Reading], sent: int
    ) -> list[Reading]:
        """Return the draft with the most expected accepted tokens for the next forward.

        text: the tokens before this forward's.
        accepted: the tokens that this forward adds: accepted drafts and the model's own next token.
        masked: the masks' predictions after them.
        sent: the number of draft tokens that this forward verified.
        """
        if not self.longest:
            return list(masked)
        if self._match:
            verified = len(accepted) - 1
            self._accepted[self._match] += verified
            self._tried[self._match] += min(verified + 1, sent)
        match, copy = self._copy([*text, *(reading.token for reading in accepted)])
        chosen = expected(copy) > expected(masked)
        self._match = match if chosen else 0
        return copy if chosen else list(masked)

    def _copy(self, ids: Sequence[int]) -> tuple[int, list[Reading]]:
        """Return the length of a match and an n-gram draft, as long as acceptance is likely enough."""
        match, place = earlier(ids)
        if not match:
            return 0, []
        # A prior of n accepted in n + 2 after a match of n tokens, updated as the answer grows.
        chance = (match + self._accepted[match]) / (match + 2 + self._tried[match])
        reached = itertools.accumulate(itertools.repeat(chance, self.longest), operator.mul)
        count = sum(share >= REACHED for share in reached)
        return match, [Reading(token, chance, [], [], "copy") for token in continued(ids, place, count)]


def expected(draft: Sequence[Reading]) -> float:
    """Return the expected accepted tokens of a draft, with scores as conditional probabilities."""
    return sum(itertools.accumulate((reading.score for reading in draft), operator.mul))
