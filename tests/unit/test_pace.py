"""The adaptive window: expected speeds against enumerations and simulations, and answers of a model."""

import itertools
import random
from dataclasses import replace

import pytest
from greedy import check_tokens

from mars_demo.decoding import pace
from mars_demo.decoding.decode import decode
from mars_demo.decoding.pace import Pace, cost_of, measured
from mars_demo.decoding.request import Request
from mars_demo.decoding.strategies import lossless
from mars_demo.models.load import load_checkpoint

FLAT = [(1, 5.0), (5, 5.4), (9, 5.8)]  # a tiny model
STEEP = [(1, 10.0), (5, 18.0), (9, 26.0)]  # a model whose positions cost time
PROMPTS = ["How many meters is 14 kilometers?", "How do you spell planet backwards?"]


def test_three_forwards_are_measured_and_leave_nothing_behind(mars_tiny):
    """Record with a forward hook how many positions each forward computes."""
    sizes = []
    hook = mars_tiny.model.base_model.register_forward_pre_hook(
        lambda module, inputs, named: sizes.append(named["input_ids"].shape[1]), with_kwargs=True
    )
    try:
        costs = measured(mars_tiny).costs
    finally:
        hook.remove()
    assert [k for k, _ in costs] == [1, 5, 9] and all(ms > 0 for _, ms in costs)
    assert set(sizes[1:]) == {1, 5, 9} and len(sizes) < 30
    assert mars_tiny.costs is None
    assert [k for k, _ in measured(load_checkpoint("ar-tiny", "cpu")).costs] == [1, 5, 9]


@pytest.mark.parametrize(
    ("costs", "slope"),
    [
        (FLAT, 0.02),
        (STEEP, 0.2),
        ([(1, 5.5), (5, 9), (9, 12.4)], 0.16),
        ([(1, 5), (5, 4), (9, 3)], 0),
        ([(1, 1), (2, 1.25)], 0.24),  # 12.5 steps; the live page rounds halves to even too
    ],
)
def test_the_cost_of_positions_is_the_line_through_the_measured_ones(costs, slope):
    assert [cost_of(costs)(k) for k in (1, 6, 17)] == pytest.approx([1, 1 + 5 * slope, 1 + 16 * slope])


def accepted_in(outcome: tuple[int, ...]) -> int:
    return sum(1 for _ in itertools.takewhile(bool, outcome))


@pytest.mark.parametrize("costs", [FLAT, STEEP])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("slots", [1, 2, 4])
def test_expected_speeds_equal_an_enumeration_of_all_outcomes(costs, rate, slots):
    cost, masks = cost_of(costs), slots - 1
    tokens = ms = grouped = cycle = cycle_ms = 0.0
    for outcome in itertools.product([1, 0], repeat=masks):
        count = accepted_in(outcome)
        probability = rate ** sum(outcome) * (1 - rate) ** (masks - sum(outcome))
        tokens += probability * (count + 1)
        ms += probability * cost(count + 1 + masks)
        grouped += probability * cost(1 + masks + masks * slots)
        again = count < masks  # a forward without drafts follows
        cycle += probability * (count + 1 + again)
        cycle_ms += probability * (cost(1 + 2 * masks) + again * cost(1 + masks))
    assert pace.window_gain(slots, rate, cost) == pytest.approx(tokens / ms)
    assert pace.grouped(slots, rate, cost) == pytest.approx(tokens / grouped)
    assert pace.linear(slots, rate, cost) == pytest.approx(cycle / cycle_ms)


def simulated(checkpoint, request: Request, rate: float, tokens: int = 4000) -> float:
    """Return the tokens in the time of a forward with 1 position; slots are accepted with one rate."""
    chance, cost = random.Random(0), cost_of(checkpoint.costs)
    chosen, done, new, time = Pace(checkpoint, request), 0, 1, 0.0
    while done < tokens:
        masks = chosen.masks
        time += cost(new + masks)
        new = 1 + accepted_in(tuple(chance.random() < rate for _ in range(masks)))
        chosen.saw(new - 1, masks)
        done += new
    return done / time


@pytest.mark.parametrize("costs", [FLAT, STEEP])
@pytest.mark.parametrize("rate", [0.02, 0.4, 0.7, 0.95])
def test_an_adaptive_window_is_about_as_fast_as_the_best_fixed_one(mars_tiny, costs, rate):
    checkpoint = replace(mars_tiny, costs=costs)
    fixed = [Request("mars", window=slots) for slots in range(1, 10)]
    best = max(simulated(checkpoint, request, rate) for request in fixed)
    adaptive = Request("mars", adaptive=True).fitted(checkpoint)
    assert simulated(checkpoint, adaptive, rate) >= 0.95 * best


def test_lossless_gives_the_tokens_of_ar_with_any_number_of_masks(mars_tiny, monkeypatch):
    chance = random.Random(3)
    monkeypatch.setattr(lossless.Pace, "masks", property(lambda _: chance.randint(0, 8)))
    for prompt, is_linear in itertools.product(PROMPTS, (True, False)):
        ar = decode(mars_tiny, prompt, Request("ar")).finish()
        run = decode(mars_tiny, prompt, Request("lossless", linear=is_linear)).finish()
        check_tokens(mars_tiny, run, ar.token_ids)


@pytest.mark.parametrize("mode", ["mars", "lossless"])
def test_only_an_adaptive_request_without_a_window_adapts(mars_tiny, mode):
    checkpoint = replace(mars_tiny, costs=STEEP)

    def answer(**settings):
        return decode(checkpoint, PROMPTS[0], Request(mode, 0.9, **settings)).finish()

    run = answer(adaptive=True)
    assert (run.settings.window, run.settings.costs) == (9, STEEP)
    fixed, named = answer(), answer(window=3, adaptive=True)
    assert fixed.settings.costs is None and "costs" not in fixed.first_line()
    assert named.settings.costs is None and named.settings.window == 3
    positions = [[step.positions for step in one.passes] for one in (run, fixed, named)]
    assert positions[0] not in positions[1:]
    again = type(run).read(run.lines())
    assert (again.settings, again.passes[0].positions) == (run.settings, run.passes[0].positions)
    unmeasured = decode(mars_tiny, PROMPTS[0], Request(mode, 0.9, adaptive=True)).finish()
    assert [step.positions for step in unmeasured.passes] == positions[1]


def test_the_window_follows_the_masks_that_were_accepted(mars_tiny):
    checkpoint = replace(mars_tiny, costs=STEEP)
    request = Request("mars", 0.9, adaptive=True)
    run = decode(checkpoint, PROMPTS[0], request).finish()
    chosen, windows = Pace(checkpoint, request.fitted(checkpoint)), []
    for step in run.passes:
        windows.append(len(step.slots))
        assert windows[-1] == chosen.masks + 1
        chosen.saw(step.accepted - 1, windows[-1] - 1)
    assert len(set(windows)) > 1
