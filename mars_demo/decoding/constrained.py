"""Readings of a forward under a grammar, where each slot depends on the tokens before it."""

from dataclasses import dataclass, replace

from torch import Tensor

from mars_demo.core.layout import Role
from mars_demo.decoding.matcher import Matcher
from mars_demo.decoding.reading import Forward, Reader, Reading, forced


@dataclass(frozen=True)
class ConstrainedReader(Reader):
    """The reading of logits under a grammar: tokens and scores are those among the allowed tokens.

    A slot is read after the tokens before it: verified drafts, then the model's own next token, then the
    masks of the group after exactly this text, or without masks the next guesses. No strategy uses the
    other slots, which have score 0.
    """

    matcher: Matcher | None = None

    def __call__(self, logits: Tensor, forward: Forward) -> list[Reading]:
        logits, positions, matcher = logits.cpu(), forward.positions, self.matcher
        layout, first = forward.layout, forward.first
        ids, roles, groups = (
            part[0, first:].tolist() for part in (layout.ids, layout.roles, layout.groups)
        )
        drafts = [token for token, role in zip(ids, roles) if role == Role.DRAFT]
        readings = [Reading(0, 0.0, [], [])] * len(ids)

        def read(row: int) -> int:
            readings[row] = self._choice(logits[row], positions[row])
            matcher.advance(readings[row].token)
            return readings[row].token

        if not ids:  # the commit of a cache block reads nothing
            return []
        with matcher.trial():
            verified = 0
            while [read(verified)] == drafts[verified : verified + 1] and not matcher.is_over:
                verified += 1
            following = [row for row, group in enumerate(groups) if group == verified]
            if Role.MASK not in roles:
                following = range(verified + 1, len(drafts) + 1)
            for row in following:
                if not matcher.is_over:
                    read(row)
        return readings

    def _choice(self, logits: Tensor, position: int) -> Reading:
        if self.matcher.forced:
            return forced(self.matcher.forced[0])
        [reading] = self.read(self.matcher.mask(logits)[None], [position])
        count = sum(p > 0 for p in reading.probabilities)
        return replace(
            reading, candidates=reading.candidates[:count], probabilities=reading.probabilities[:count]
        )
