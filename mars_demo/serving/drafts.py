"""The draft tokens of a run, counted as vLLM counts those of speculative decoding."""

from __future__ import annotations

from dataclasses import dataclass

from mars_demo.core.modes import MODES
from mars_demo.core.trace import Pass, Run


@dataclass(frozen=True)
class Drafts:
    """The counts of draft tokens of a run.

    A forward's draft is all that it offers beyond the model's own next token: in `mars` the slots of its
    masks, in verifying modes the drafts that it checks, whether masks, prompt lookup, earlier guesses or a
    second model made them. `ar` has none. In block diffusion every slot is a mask's.

    `count` is the number of forwards with a draft, `tokens` that of the tokens in all drafts.
    `accepted_at` has, for each position in a draft, the number of drafts accepted up to there at least.
    """

    count: int
    tokens: int
    accepted_at: tuple[int, ...]

    @classmethod
    def of(cls, run: Run) -> Drafts:
        """Return the counts of a run, finished or not."""
        offered = [_offered(step, run.settings.mode) for step in run.passes]
        accepted = [_predicted(step, step.accepted) for step in run.passes]
        positions = range(max(offered, default=0))
        accepted_at = tuple(sum(number > position for number in accepted) for position in positions)
        return cls(sum(tokens > 0 for tokens in offered), sum(offered), accepted_at)

    @property
    def accepted(self) -> int:
        """Return the number of draft tokens that joined the answer."""
        return sum(self.accepted_at)

    @property
    def rejected(self) -> int:
        """Return the number of the other draft tokens, including those after the end of the answer."""
        return self.tokens - self.accepted

    @property
    def acceptance(self) -> list[float]:
        """Return the acceptance rate of each position: drafts accepted up to there, out of all drafts."""
        return [accepted / self.count for accepted in self.accepted_at]


def _offered(step: Pass, mode: str) -> int:
    if MODES[mode].beyond == "draft":  # its slots after the accepted ones are the next forward's draft
        return step.drafts or 0
    # Slots have the verified drafts, but not the rejected ones.
    return (step.drafts or 0) - (step.verified or 0) + _predicted(step, len(step.slots))


def _predicted(step: Pass, slots: int) -> int:
    """Return how many of the first slots are not the model's own next token."""
    return sum(slot.source != "model" for slot in step.slots[:slots])
