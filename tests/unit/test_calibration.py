"""Calibration: slots and answers that equal AR's, what the page says of them, and rival rules."""

import math
from functools import partial

import pytest

from benchmarks import calibration as benchmark
from benchmarks import rules
from mars_demo.core.acceptance import CRITERIA
from mars_demo.core.names import CHAT, TINY
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.reading import Reading
from mars_demo.decoding.request import Request
from mars_demo.evaluation.calibration import calibrations, kept
from mars_demo.ui import plots
from mars_demo.ui.tabs.race import tau_help

PROMPTS = 8


@pytest.fixture(scope="module")
def asked(mars_tiny) -> list[benchmark.Asked]:
    return [*benchmark.ask(mars_tiny, PROMPTS)]


@pytest.mark.parametrize("criterion", CRITERIA)
def test_slots_are_those_of_a_lossless_run(mars_tiny, asked, criterion):
    """A lossless run records its drafts, and the tokens that it accepts later are AR's."""
    for one in asked:
        request = Request("lossless", criterion=criterion, linear=False, ngram_tokens=0)
        run, drafted, done = decode(mars_tiny, one.question.prompt, request).finish(), [], 0
        for step in run.passes:
            done += step.accepted
            drafts = zip(step.slots[step.accepted :], run.token_ids[done:])
            drafted += [(slot, d.score, d.id == own) for slot, (d, own) in enumerate(drafts, start=2)]
        slots = [*benchmark.slots(mars_tiny, [criterion], one)]
        assert run.token_ids == one.answer
        assert [slot[::2] for slot in slots] == [slot[::2] for slot in drafted]
        assert [s for _, [s], _ in slots] == pytest.approx([s for _, s, _ in drafted], abs=1e-3)


def test_an_accepted_slot_is_ars_own_after_the_text_before_it(mars_tiny, asked):
    counts = {"accepted": 0, "own": 0, "unchanged": 0}
    for one in asked:
        run = decode(mars_tiny, one.question.prompt, Request("mars", tau=0.05)).finish()
        ids, at, accepted, own = [*run.token_ids], 0, 0, 0
        for step in run.passes:
            for place in range(at + 1, at + step.accepted):
                text = [*one.prompt_ids, *ids[:place]]
                accepted += 1
                own += benchmark.own_choices(mars_tiny, text, [0]) == [ids[place]]
            at += step.accepted
        found = benchmark.counted(mars_tiny, one, run)
        assert (found["accepted"], found["own"]) == (accepted, own)
        counts = {name: count + found[name] for name, count in counts.items()}
    assert 0 < counts["own"] < counts["accepted"] and counts["unchanged"] < PROMPTS


def test_rules_that_tolerate_nothing_are_lossless(mars_tiny, asked):
    def outcome(run: Run) -> tuple[list[int], int]:
        return run.token_ids, run.forwards

    for one in asked:
        lossless = decode(mars_tiny, one.question.prompt, rules.VERIFYING).finish()
        for rule in (partial(rules.ensemble, 1), partial(rules.fly, math.inf, 1)):
            assert outcome(rules.answered(mars_tiny, one, rules.VERIFYING, rule)) == outcome(lossless)
        request = Request("mars", math.exp(-0.4), "entropy")
        free, strict = (
            rules.answered(mars_tiny, one, request, partial(rules.penalized, weight)) for weight in (0, 10)
        )
        assert outcome(free) == outcome(decode(mars_tiny, one.question.prompt, request).finish())
        assert outcome(strict) == (one.answer, len(one.answer))


def reading(*probabilities: float, first: int = 0) -> Reading:
    """Return the reading of the most probable of some tokens, numbered from `first`."""
    tokens = [*range(first, first + len(probabilities))]
    return Reading(tokens[0], probabilities[0], tokens, [*probabilities])


def test_an_uncertain_choice_yields_to_a_draft_that_the_next_ones_follow():
    unsure, sure = reading(0.5, 0.4, 0.1), reading(0.99, 0.01)
    other, same = reading(0.9, first=1), reading(0.9)

    def tokens(own, drafts, **settings) -> list[int]:
        return [one.token for one in rules.fly(settings.get("entropy", 0.5), 1, own, drafts)]

    assert tokens([unsure, sure, sure], [other, same]) == [1, 0, 0]
    assert tokens([sure, sure, sure], [other, same]) == [0, 0, 0]
    assert tokens([unsure, sure, sure], [other, other]) == [0, 0, 0]
    assert tokens([unsure, sure], [other]) == [0, 0]
    # 0.5 · ln 2 + 0.4 · ln 2.5 + 0.1 · ln 10 = 0.94
    assert tokens([unsure, sure, sure], [other, same], entropy=0.95) == [0, 0, 0]


@pytest.mark.parametrize(("weight", "token"), [(0.9, 0), (0.6, 1)])
def test_an_ensemble_weighs_the_draft(weight, token):
    """For token 1: 0.9 · 0.4 + 0.1 · 0.9 < 0.9 · 0.6 but 0.6 · 0.4 + 0.4 · 0.9 > 0.6 · 0.6."""
    own, draft = reading(0.6, 0.4), reading(0.9, first=1)
    assert [one.token for one in rules.ensemble(weight, [own, own], [draft])] == [token, 0]


@pytest.mark.parametrize("model", [TINY, CHAT])
def test_the_page_tells_what_a_measured_threshold_keeps(model):
    every = calibrations(model)
    assert set(every) == set(CRITERIA)
    for measured in every.values():
        right, count = measured.right(0)
        assert count >= 5000 and right < count
        lines = plots.plot_calibration(measured).data
        assert len({line.line.dash for line in lines}) == len({line.marker.symbol for line in lines}) == 4
        right, count = measured.right(0.95)
        assert f"{right / count:.1%}" in measured.sentence and f"{count:,}" in measured.sentence
    row = next(row for row in every["probability"].rows if row["tau"] == 0.95)
    for part, whole in ((row["own"], row["accepted"]), (row["unchanged"], row["n"])):
        assert f"{part / whole:.1%}" in kept(model)
    assert tau_help(model).endswith(kept(model))
    assert kept("ar-tiny") == "" and not calibrations(None)
