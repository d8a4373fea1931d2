"""The adaptive window: expected tokens per millisecond against enumeration, and simulated answers."""

import itertools
import random
from collections.abc import Callable

import pytest
from greedy import check_tokens

from mars_demo.decoding.acceptance import accepted
from mars_demo.decoding.costs import Costs
from mars_demo.decoding.decode import decode
from mars_demo.decoding.pace import DraftPace, Pace, Plan, tokens_per_ms
from mars_demo.decoding.reading import Reading
from mars_demo.decoding.request import Request
from mars_demo.decoding.strategies import lossless

MASKS = 4
FLAT = Costs(((1, 4.0), (25, 9.0)))  # a tiny model
STEEP = Costs(((1, 15.0), (25, 140.0)))  # a model whose positions cost as much as its weights
PROMPTS = ["How many meters is 14 kilometers?", "How do you spell planet backwards?"]


def drafted(*scores: float) -> list[Reading]:
    return [Reading(7, score, [], [], "mask") for score in scores]


class Fixed:
    """A fixed window with the interface of `Pace` and `DraftPace`."""

    def __init__(self, masks: int, linear: bool = True):
        self.most, self.linear = masks, linear

    def masks(self, new, most, threshold):
        return min(self.most, most)

    def plan(self, draft, room):
        return Plan(min(len(draft), room), min(self.most, room), self.linear)

    def saw(self, *_):
        pass


def mars(pace, costs: Costs, rate_at: Callable[[int], float], length: int, seed: int) -> float:
    """Return the milliseconds of a simulated answer; a mask is accepted with the rate at its position."""
    chance, done, new, ms = random.Random(seed), 0, 1, 0.0
    while done < length:
        masks = pace.masks(new, min(MASKS, length - done - 1), 0.5)
        scores = [float(chance.random() < rate_at(done)) for _ in range(masks + 1)]
        pace.saw(scores)
        ms += costs(new + masks)
        new = accepted(scores, 0.5)
        done += new
    return ms


def verified(pace, costs: Costs, rate_at: Callable[[int], float], length: int, seed: int) -> float:
    """Return the milliseconds of a simulated `lossless` answer; scores are acceptance rates."""
    chance, done, drafts, ms = random.Random(seed), 0, 0, 0.0
    while done < length:
        most = min(MASKS, length - done - 1)
        plan = pace.plan(drafted(*[rate_at(done)] * min(drafts, most)), most)
        count = 0
        while count < plan.drafts and chance.random() < rate_at(done):
            count += 1
        pace.saw(plan.drafts, count)
        ms += costs(plan.positions)
        done += count + 1
        drafts = 0 if plan.linear and count < plan.drafts else plan.masks
    return ms


@pytest.mark.parametrize("costs", [FLAT, STEEP])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_tokens_per_millisecond_equal_an_enumeration_of_all_outcomes(costs, rate):
    """Enumerate the outcomes of two forwards: the second also computes what the first accepted."""
    table = [costs(max(k, 1)) for k in range(30)]
    chances = [rate**i for i in range(MASKS + 1)]
    for masks in range(MASKS + 1):
        tokens = ms = 0.0
        for outcome in itertools.product([1.0, 0.0], repeat=masks):
            count = accepted([1.0, *outcome], 0.5)
            probability = 1.0
            for is_accepted in outcome:
                probability *= rate if is_accepted else 1 - rate
            tokens += probability * count
            ms += probability * costs(count + masks)
        assert tokens_per_ms(chances, masks, table) == pytest.approx(tokens / ms)


def compare(simulate, adaptive, fixed, costs, rates, length, answers) -> float:
    """Return the tokens per millisecond of the adaptive window relative to the best fixed one."""

    def total(make) -> float:
        return sum(simulate(make(), costs, rates[n % len(rates)], length, n) for n in range(answers))

    return min(map(total, fixed)) / total(adaptive)


def paces(costs: Costs) -> list[tuple]:
    fixed = [lambda m=m: Fixed(m) for m in range(MASKS + 1)]
    grouped = [lambda m=m: Fixed(m, linear=False) for m in range(MASKS + 1)]
    return [
        (mars, lambda: Pace(costs, MASKS + 1), fixed),
        (verified, lambda: DraftPace(costs, MASKS + 1, True), fixed),
        (verified, lambda: DraftPace(costs, MASKS + 1, None), [*fixed, *grouped]),
    ]


@pytest.mark.parametrize(("costs", "rate"), [(FLAT, 0.05), (STEEP, 0.4), (FLAT, 0.7), (STEEP, 0.95)])
def test_an_adaptive_window_is_about_as_fast_as_the_best_fixed_one(costs, rate):
    for case in paces(costs):
        assert compare(*case, costs, [lambda _: rate], length=200, answers=40) >= 0.97


def test_a_changed_threshold_takes_effect_at_once():
    pace = Pace(STEEP, MASKS + 1)
    for _ in range(20):
        pace.masks(1, MASKS, 0.9)
        pace.saw([1.0, 0.6, 0.6, 0.6, 0.6])
    assert pace.masks(1, MASKS, 0.9) <= 1
    assert pace.masks(1, MASKS, 0.5) >= 3
    assert pace.masks(1, MASKS, 0.9) <= 1


def test_there_are_no_masks_at_tau_1_and_the_most_without_costs(mars_tiny):
    assert Pace(FLAT, 9).masks(1, 0, 1.0) == 0
    assert Pace(None, 9).masks(1, 8, 0.9) == 8
    assert DraftPace(None, 9, True).plan(drafted(0.1, 0.0), 8) == Plan(2, 8, True)
    run = decode(mars_tiny, PROMPTS[0], Request("mars", 1.0, costs=STEEP)).finish()
    ar = decode(mars_tiny, PROMPTS[0], Request("ar")).finish()
    check_tokens(mars_tiny, run, ar.token_ids)
    assert [len(step.slots) for step in run.passes] == [1] * ar.forwards


def test_lossless_gives_the_tokens_of_ar_with_any_plan(mars_tiny, monkeypatch):
    chance = random.Random(3)

    class Whim(DraftPace):
        def plan(self, draft, room):
            drafts, masks = min(len(draft), max(0, room)), max(0, min(8, room))
            return Plan(chance.randint(0, drafts), chance.randint(0, masks), chance.random() < 0.5)

    monkeypatch.setattr(lossless, "DraftPace", Whim)
    for prompt in PROMPTS:
        ar = decode(mars_tiny, prompt, Request("ar")).finish()
        for _ in range(4):
            check_tokens(mars_tiny, decode(mars_tiny, prompt, Request("lossless")).finish(), ar.token_ids)


@pytest.mark.parametrize("mode", ["mars", "lossless"])
def test_the_record_has_the_costs_and_a_given_window_is_kept(mars_tiny, mode):
    run = decode(mars_tiny, PROMPTS[0], Request(mode, 0.9, costs=STEEP)).finish()
    assert run.settings.window == 9
    assert run.settings.costs == [(1, 15.0), (25, 140.0)]
    assert len({step.positions for step in run.passes[1:]}) > 1
    again = type(run).read(run.lines())
    assert (again.settings, again.passes[0].positions) == (run.settings, run.passes[0].positions)
    named = decode(mars_tiny, PROMPTS[0], Request(mode, 0.9, window=3, costs=STEEP)).finish()
    fixed = decode(mars_tiny, PROMPTS[0], Request(mode, 0.9, window=3)).finish()
    assert named.settings.costs is None
    assert [step.positions for step in named.passes] == [step.positions for step in fixed.passes]
    assert "costs" not in fixed.first_line()
