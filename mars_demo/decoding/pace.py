"""The pace: how many drafts and masks each forward gets, by measured costs and past acceptance."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import sqrt
from operator import mul

from mars_demo.decoding.acceptance import accepted
from mars_demo.decoding.costs import Costs
from mars_demo.decoding.reading import Reading
from mars_demo.modes import LONGEST_NGRAM_DRAFT

MEMORY = 0.95  # decay of a slot's counts per observation
STRENGTH = 2.0  # weight of the prior, in forwards
NEIGHBOUR = 8.0  # weight of the previous slot's acceptance rate, in forwards
EXPECTED = 0.95  # prior acceptance rate of a mask or draft
EXPLORING = 0.01  # share of the time for one slot more than seems to pay, in case acceptance has risen
REMEMBERED = 32  # forwards whose scores are compared again when τ changes
SCORES = (0.25, 0.5, 0.75, 0.95)  # borders of the score ranges that share an acceptance rate


class Survival:
    """Decaying acceptance rates of the slots of a window, each given that all slots before it are accepted.

    slots: the number of slots after the first, which is always accepted. The prior of a slot is the rate of
        the slot before it, so at first the chances decay geometrically.
    """

    def __init__(self, slots: int):
        self._tried, self._accepted = [0.0] * slots, [0.0] * slots
        self._prior = STRENGTH  # remaining weight of the prior of slot 1

    def add(self, chances: Sequence[float]) -> None:
        """Learn from a forward: for each slot 1 (accepted), 0 (rejected) or the chance of acceptance."""
        reached = 1.0  # the chance that all slots before this one are accepted
        for slot, chance in enumerate(chances):
            kept = 1 - (1 - MEMORY) * reached
            self._prior *= kept if slot == 0 else 1
            self._tried[slot] = kept * self._tried[slot] + reached
            self._accepted[slot] = kept * self._accepted[slot] + reached * chance
            reached *= chance
            if reached < 0.01:
                break

    def chances(self) -> list[float]:
        """Return the probability that the first i slots are accepted, for i from 0 to all of them."""
        chances, rate, weight = [1.0], EXPECTED, self._prior
        for tried, count in zip(self._tried, self._accepted):
            rate = (count + weight * rate) / (tried + weight)
            chances.append(chances[-1] * rate)
            weight = NEIGHBOUR
        return chances


class Drafts:
    """The acceptance rates of a model's drafts, by their place in the draft and by their scores."""

    def __init__(self, most: int):
        self.survival = Survival(most)
        self._tried, self._accepted = [[0.0] * (len(SCORES) + 1) for _ in range(2)]

    def add(self, scores: Sequence[float], outcomes: Sequence[float]) -> None:
        """Learn from the scores of a draft and the outcomes (1 accepted, 0 rejected) of its verified part.

        The rates by place count unverified drafts too, with the chances that their scores imply; otherwise
        only confident drafts would count.
        """
        for score, outcome in zip(scores, outcomes):
            index = bisect_right(SCORES, score)
            self._tried[index] = MEMORY * self._tried[index] + 1
            self._accepted[index] = MEMORY * self._accepted[index] + outcome
        self.survival.add([self.chance(score) for score in scores])

    def chance(self, score: float) -> float:
        """Return the probability that a draft is accepted if all drafts before it are.

        The prior is the square root of the score, because drafts are accepted more often than they score.
        """
        index = bisect_right(SCORES, score)
        return (self._accepted[index] + STRENGTH * sqrt(score)) / (self._tried[index] + STRENGTH)


class Exploration:
    """A time budget for slots that do not seem to pay."""

    def __init__(self):
        self._saved = 0.0

    def affords(self, ms: float, extra: float) -> bool:
        """Return whether a forward of `ms` milliseconds may take `extra` more, and charge the budget."""
        self._saved += EXPLORING * ms
        if extra > self._saved:
            return False
        self._saved -= extra
        return True


class Pace:
    """The number of masks of the forwards of one answer in `mars`.

    It maximizes the tokens per millisecond of forwards that all have this number. Now and then a forward
    gets one mask more, so that easier text is noticed. Without costs, it is always the largest.
    """

    def __init__(self, costs: Costs | None, window: int):
        self._slots = window - 1
        self._costs = costs and [costs(max(k, 1)) for k in range(2 * window + 1)]
        self._exploration = Exploration()
        self._scores: deque[Sequence[float]] = deque(maxlen=REMEMBERED)
        self._forget(None)

    def _forget(self, threshold: float | None) -> None:
        self._threshold = threshold
        self._survival = Survival(self._slots)

    def masks(self, new: int, most: int, threshold: float | None) -> int:
        """Return the number of masks after `new` tokens, at most `most`.

        If the threshold has changed, the scores of earlier forwards are compared with the new one.
        """
        if self._costs is None or most < 1:
            return most
        if threshold != self._threshold:
            self._forget(threshold)
            for scores in self._scores:
                self._survival.add(_outcomes(scores, threshold))
        chances, new = self._survival.chances(), min(new, self._slots + 1)  # a prompt has many
        best = max(range(most + 1), key=lambda masks: tokens_per_ms(chances, masks, self._costs))
        ms, more = self._costs[new + best], self._costs[min(new + best + 1, len(self._costs) - 1)]
        return best + (best < most and self._exploration.affords(ms, more - ms))

    def saw(self, scores: Sequence[float]) -> None:
        """Learn from the scores of a forward's slots; the first slot is always accepted."""
        if self._costs and len(scores) > 1:
            self._scores.append(scores)
            self._survival.add(_outcomes(scores, self._threshold))


def tokens_per_ms(chances: Sequence[float], masks: int, costs: Sequence[float]) -> float:
    """Return the tokens per millisecond of an answer whose forwards all have `masks` masks.

    chances: the probability that the first i masks are accepted.
    costs: milliseconds by positions; a forward computes its masks and the tokens that the previous forward
        accepted.
    """
    ms = chances[masks] * costs[2 * masks + 1]
    ms += sum((chances[a - 1] - chances[a]) * costs[a + masks] for a in range(1, masks + 1))
    return sum(chances[: masks + 1]) / ms


def _outcomes(scores: Sequence[float], threshold: float | None) -> list[int]:
    """Return 1 per accepted slot after the first, then 0 if a slot is rejected."""
    return [1] * (accepted(scores, threshold) - 1) + [0] * (accepted(scores, threshold) < len(scores))


@dataclass(frozen=True)
class Plan:
    """The shape of a forward in `lossless`: its drafts, the masks per group, and its layout."""

    drafts: int
    masks: int
    linear: bool

    @property
    def positions(self) -> int:
        """Return the number of computed positions, including the first token."""
        return 1 + self.drafts + self.masks * (1 if self.linear else self.drafts + 1)


class DraftPace:
    """The numbers of drafts and masks of the forwards of one answer in `lossless`.

    The number of masks maximizes the tokens per millisecond of forwards that all have this number of masks
    and of drafts. Drafts are then sent while their chances, by their scores, are worth their positions and,
    in the linear layout, the risk that a rejected draft loses the new drafts. Without costs, all drafts are
    sent, with the most masks.

    linear: the layout; None for the better one of each forward.
    """

    def __init__(self, costs: Costs | None, window: int, linear: bool | None):
        self._linear, self._most = linear, window - 1
        self._layouts = (True, False) if linear is None else (linear,)
        most = window * max(window, LONGEST_NGRAM_DRAFT + 1)  # positions of a draft and its groups
        self._costs = costs and [costs(max(k, 1)) for k in range(most + 1)]
        self._exploration = Exploration()
        self._rates = Drafts(window - 1)
        self._scores: Sequence[float] = ()  # of the current drafts, sent or not

    def plan(self, draft: Sequence[Reading], room: int) -> Plan:
        """Return how many tokens of a draft to send and the masks per group, at most `room` of each.

        The score of an n-gram draft is its chance of acceptance. The chance of a mask's draft is estimated
        from its score.
        """
        most = max(0, min(self._most, room))
        scores = [reading.score for reading in draft[: max(0, room)]]
        if self._costs is None:
            return Plan(len(scores), most, self._linear)
        copied = bool(draft) and draft[0].source == "copy"
        self._scores = () if copied else scores
        chances = scores if copied else [self._rates.chance(score) for score in scores]
        rate, masks = self._pays(most)
        ms = self._costs[1 + masks]
        worth = rate * ms - 1  # value of new drafts in tokens: a forward makes them, and gives one token
        products = [1.0, *accumulate(chances, mul)]

        def gain(plan: Plan) -> float:
            """Return how many more tokens a plan yields than the average rate in the same time."""
            tokens = sum(products[: plan.drafts + 1])
            drafted = products[plan.drafts] if plan.linear else 1.0
            return tokens + drafted * worth - rate * self._cost(plan)

        def best(masks: int) -> Plan:
            drafts = range(len(scores) + 1)
            return max((Plan(d, masks, linear) for linear in self._layouts for d in drafts), key=gain)

        plan = best(masks)
        if masks < most:
            bolder = best(masks + 1)
            if self._exploration.affords(self._cost(plan), (gain(plan) - gain(bolder)) / rate):
                return bolder
        return plan

    def saw(self, sent: int, verified: int) -> None:
        """Learn how many of the sent drafts were accepted."""
        if self._costs is None or not self._scores:
            return
        outcomes = [1.0] * verified + [0.0] * (verified < sent)
        self._rates.add(self._scores[: self._most], outcomes)

    def _cost(self, plan: Plan) -> float:
        return self._costs[min(plan.positions, len(self._costs) - 1)]

    def _pays(self, most: int) -> tuple[float, int]:
        """Return the most tokens per millisecond with as many drafts as masks, and that number."""
        chances = self._rates.survival.chances()
        rates = [
            (verifying_rate(chances, masks, linear, self._costs), masks)
            for linear in self._layouts
            for masks in range(most + 1)
        ]
        return max(rates)


def verifying_rate(chances: Sequence[float], drafts: int, linear: bool, costs: Sequence[float]) -> float:
    """Return the tokens per millisecond of an answer in `lossless` with as many masks per group as drafts.

    In the linear layout a rejected draft leaves no drafts for the next forward, which accepts one token.
    """
    tokens, ms = sum(chances[: drafts + 1]), costs[Plan(drafts, drafts, linear).positions]
    if not linear:
        return tokens / ms
    wrong = 1 - chances[drafts]
    return (tokens + wrong) / (ms + wrong * costs[1 + drafts])
