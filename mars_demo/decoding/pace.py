"""How far ahead a forward looks: as many drafts and masks as pay, by how many have held so far."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import sqrt
from operator import mul
from typing import TYPE_CHECKING

from mars_demo.decoding.acceptance import accepted
from mars_demo.modes import LONGEST_COPY

if TYPE_CHECKING:
    from mars_demo.decoding.costs import Costs
    from mars_demo.decoding.reading import Reading

MEMORY = 0.95  # of what was seen of a slot, how much remains when it is seen again
STRENGTH = 2.0  # what is expected of a slot counts as much as so many forwards
NEIGHBOUR = 8.0  # and what the slot before it shows counts as much as so many
EXPECTED = 0.95  # how often a mask or a draft holds, before anything is known of an answer
EXPLORING = 0.01  # of the time may go into a slot more than seems to pay: it may have begun to hold
REMEMBERED = 32  # forwards whose scores are compared again when τ moves
SCORES = (0.25, 0.5, 0.75, 0.95)  # drafts with scores between two of these are expected to hold alike


class Survival:
    """How often each slot of a window held, where those before it did: recent forwards count most.

    slots: after the first one, which always holds. A slot about which little is known is expected to hold
        as often as the one before it, so at first the chances decay geometrically.
    """

    def __init__(self, slots: int):
        self._seen, self._held = [0.0] * slots, [0.0] * slots
        self._unknown = STRENGTH  # what the expectation of slot 1 still counts

    def add(self, held: Sequence[float]) -> None:
        """Learn from a forward: for each of its slots whether it held, 1 or 0, or how likely that is."""
        reached = 1.0  # how likely it is that all slots before this one held
        for slot, chance in enumerate(held):
            kept = 1 - (1 - MEMORY) * reached
            self._unknown *= kept if slot == 0 else 1
            self._seen[slot] = kept * self._seen[slot] + reached
            self._held[slot] = kept * self._held[slot] + reached * chance
            reached *= chance
            if reached < 0.01:
                break

    def chances(self) -> list[float]:
        """Return the probability that the first i slots hold, for i from 0 to all of them."""
        chances, rate, weight = [1.0], EXPECTED, self._unknown
        for seen, held in zip(self._seen, self._held):
            rate = (held + weight * rate) / (seen + weight)
            chances.append(chances[-1] * rate)
            weight = NEIGHBOUR
        return chances


class Drafts:
    """How often the drafts of a model have held: by their place, and by their scores."""

    def __init__(self, most: int):
        self.survival = Survival(most)
        self._seen, self._held = [[0.0] * (len(SCORES) + 1) for _ in range(2)]

    def add(self, scores: Sequence[float], held: Sequence[float]) -> None:
        """Learn from the scores of a draft and, for those that were verified, whether they held, 1 or 0.

        By their place all count, verified or not, as their scores say: else only sure ones would ever be
        seen.
        """
        for score, known in zip(scores, held):
            place = bisect_right(SCORES, score)
            self._seen[place] = MEMORY * self._seen[place] + 1
            self._held[place] = MEMORY * self._held[place] + known
        self.survival.add([self.chance(score) for score in scores])

    def chance(self, score: float) -> float:
        """Return the probability that a draft holds if those before it do; it is higher than the score."""
        place = bisect_right(SCORES, score)
        return (self._held[place] + STRENGTH * sqrt(score)) / (self._seen[place] + STRENGTH)


class Exploration:
    """A share of the time to spend on slots that do not seem to pay."""

    def __init__(self):
        self._saved = 0.0

    def affords(self, ms: float, extra: float) -> bool:
        """Return whether a forward of `ms` milliseconds may take `extra` more."""
        self._saved += EXPLORING * ms
        if extra > self._saved:
            return False
        self._saved -= extra
        return True


class Pace:
    """Of one answer in `mars`: how many masks its forwards have.

    The number that would give most tokens per millisecond if every forward had it, and now and then one
    more, so that easier text is noticed. Without costs, as many as there may be.
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
        """Return how many masks follow `new` tokens, at most `most`. The scores of earlier forwards are
        compared with the threshold of now, which a visitor may have moved."""
        if self._costs is None or most < 1:
            return most
        if threshold != self._threshold:
            self._forget(threshold)
            for scores in self._scores:
                self._survival.add(_held(scores, threshold))
        chances, new = self._survival.chances(), min(new, self._slots + 1)  # a prompt has many
        best = max(range(most + 1), key=lambda masks: tokens_per_ms(chances, masks, self._costs))
        ms, more = self._costs[new + best], self._costs[min(new + best + 1, len(self._costs) - 1)]
        return best + (best < most and self._exploration.affords(ms, more - ms))

    def saw(self, scores: Sequence[float]) -> None:
        """Learn from the scores of a forward's slots, of which the first is always accepted."""
        if self._costs and len(scores) > 1:
            self._scores.append(scores)
            self._survival.add(_held(scores, self._threshold))


def tokens_per_ms(chances: Sequence[float], masks: int, costs: Sequence[float]) -> float:
    """Return the tokens per millisecond of an answer whose forwards all have that many masks.

    chances: that the first i masks are accepted. costs: milliseconds by positions; a forward computes its
        masks and what the one before it accepted.
    """
    ms = chances[masks] * costs[2 * masks + 1]
    ms += sum((chances[a - 1] - chances[a]) * costs[a + masks] for a in range(1, masks + 1))
    return sum(chances[: masks + 1]) / ms


def _held(scores: Sequence[float], threshold: float | None) -> list[int]:
    return [1] * (accepted(scores, threshold) - 1) + [0] * (accepted(scores, threshold) < len(scores))


@dataclass(frozen=True)
class Plan:
    """A forward of `lossless`: its drafts, the masks of each group, and whether there is only one group."""

    drafts: int
    masks: int
    linear: bool

    @property
    def positions(self) -> int:
        """Return how many it computes, its first token among them."""
        return 1 + self.drafts + self.masks * (1 if self.linear else self.drafts + 1)


class DraftPace:
    """Of one answer in `lossless`: how many drafts its forwards verify and how many masks make new ones.

    The number of masks is the one that would give most tokens per millisecond if every forward had as many,
    and as many drafts. Drafts are then sent while their chances to hold, by their scores, are worth their
    positions and, in the linear layout, the risk that a wrong one takes the new drafts with it.

    linear: the layout; None for whichever pays, forward by forward. Without costs, all drafts and as many
        masks as there may be.
    """

    def __init__(self, costs: Costs | None, window: int, linear: bool | None):
        self._linear, self._most = linear, window - 1
        self._layouts = (True, False) if linear is None else (linear,)
        most = window * max(window, LONGEST_COPY + 1)  # positions: the longest draft and its groups
        self._costs = costs and [costs(max(k, 1)) for k in range(most + 1)]
        self._exploration = Exploration()
        self._known = Drafts(window - 1)
        self._scores: Sequence[float] = ()  # of the present drafts, also of those that are not sent

    def plan(self, draft: Sequence[Reading], room: int) -> Plan:
        """Return what to send of a draft, and how many masks a group has, at most `room` of each.

        The score of a copied token is the chance that it holds; that of a mask's is learned from.
        """
        most = max(0, min(self._most, room))
        scores = [reading.score for reading in draft[: max(0, room)]]
        if self._costs is None:
            return Plan(len(scores), most, self._linear)
        copied = bool(draft) and draft[0].source == "copy"
        self._scores = () if copied else scores
        chances = scores if copied else [self._known.chance(score) for score in scores]
        rate, masks = self._pays(most)
        ms = self._costs[1 + masks]
        worth = rate * ms - 1  # of having drafts, in tokens: making them takes a forward, which gives one
        products = [1.0, *accumulate(chances, mul)]

        def gain(plan: Plan) -> float:
            """Return how many tokens more it gives than the rate does in its time."""
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
        """Learn how many of the drafts that were sent held."""
        if self._costs is None or not self._scores:
            return
        held = [1.0] * verified + [0.0] * (verified < sent)
        self._known.add(self._scores[: self._most], held)

    def _cost(self, plan: Plan) -> float:
        return self._costs[min(plan.positions, len(self._costs) - 1)]

    def _pays(self, most: int) -> tuple[float, int]:
        """Return the most tokens per millisecond with equally many drafts and masks, and that number."""
        chances = self._known.survival.chances()
        rates = [
            (verifying_rate(chances, masks, linear, self._costs), masks)
            for linear in self._layouts
            for masks in range(most + 1)
        ]
        return max(rates)


def verifying_rate(chances: Sequence[float], drafts: int, linear: bool, costs: Sequence[float]) -> float:
    """Return tokens per millisecond of an answer in `lossless` whose forwards all have that many masks in a
    group, and as many drafts wherever there are some.

    In the linear layout a wrong draft leaves none for the next forward, which accepts one token.
    """
    tokens, ms = sum(chances[: drafts + 1]), costs[Plan(drafts, drafts, linear).positions]
    if not linear:
        return tokens / ms
    wrong = 1 - chances[drafts]
    return (tokens + wrong) / (ms + wrong * costs[1 + drafts])
