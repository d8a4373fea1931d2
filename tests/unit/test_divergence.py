"""Where two answers part, against a plain comparison of their tokens and of the slots in their records."""

import itertools
import json

import pytest

from mars_demo import tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.evaluation.divergence import between, first_difference, of_prompt

PROMPTS = [example.prompt for example in tasks.held_out("letters", 4)]
ONE = Request("ar", max_new_tokens=100)
OTHERS = {
    "mars": Request("mars", 0.3, max_new_tokens=100),
    "margin": Request("mars", 0.1, "margin", max_new_tokens=100),
    "lossless": Request("lossless", max_new_tokens=100),
    "shorter": Request("ar", max_new_tokens=5),
}


def accepted(run: Run) -> list[tuple]:
    """Return every accepted token with its pass and its place in it, by plain counting."""
    return [
        (step, place, slot)
        for step in run.passes
        for place, slot in enumerate(step.slots, start=1)
        if place <= step.accepted
    ]


@pytest.mark.parametrize("name", OTHERS)
def test_it_finds_the_first_token_that_differs(mars_tiny, name):
    found = []
    for prompt in PROMPTS:
        one, other = (decode(mars_tiny, prompt, request).finish() for request in (ONE, OTHERS[name]))
        pairs = enumerate(itertools.zip_longest(one.token_ids, other.token_ids))
        index = next((i for i, (a, b) in pairs if a != b), None)
        divergence = between(one, other)
        found.append(divergence)
        if index is None:
            assert divergence is None
            continue
        assert divergence.index == index
        decoded = mars_tiny.tokenizer.decode(one.token_ids[:index], skip_special_tokens=True)
        assert divergence.before == decoded
        for side, run in ((divergence.one, one), (divergence.other, other)):
            if index >= run.tokens:
                assert side is None
                continue
            step, place, slot = accepted(run)[index]
            assert (side.number, side.slot, side.tau) == (step.number, place, step.tau)
            assert (side.token, side.text, side.score) == (slot.id, slot.text, slot.score)
            assert side.candidates == slot.top and side.source == slot.source
            assert (side.mode, side.criterion) == (run.settings.mode, run.settings.criterion)
    assert (name == "lossless") == (found == [None] * len(PROMPTS))
    assert name != "shorter" or all(each.index == 5 and each.other is None for each in found)


def test_a_token_that_was_accepted_too_soon_says_why(mars_tiny):
    divergences = [of_prompt(mars_tiny, prompt, ONE, OTHERS["mars"]) for prompt in PROMPTS]
    parted = [each for each in divergences if each]
    assert parted
    for each in parted:
        # AR's token is its most probable one; the other was accepted beyond slot 1, at its score.
        assert each.one.slot == 1 and each.one.tau is None
        assert each.one.candidates[0][0] != each.other.candidates[0][0]
        assert each.other.slot > 1 and each.other.tau == 0.3 <= each.other.score
        assert each.other.score == pytest.approx(each.other.candidates[0][1], abs=1e-6)


def test_from_prompts_it_is_that_of_the_runs_and_its_record_is_plain_json(mars_tiny):
    for prompt in PROMPTS[:3]:
        runs = [decode(mars_tiny, prompt, request).finish() for request in (ONE, OTHERS["mars"])]
        divergence = of_prompt(mars_tiny, prompt, ONE, OTHERS["mars"])
        assert divergence == between(*runs)
        assert between(*reversed(runs)) == divergence or between(*reversed(runs)).one == divergence.other
        if divergence:
            read = [Run.read(list(run.lines())) for run in runs]  # also from records that were saved
            assert between(*read).index == divergence.index
            record = json.loads(json.dumps(divergence.record()))
            assert record["one"]["token"] == divergence.one.token
            assert record["other"]["candidates"][0] == list(divergence.other.candidates[0])


def test_runs_on_different_prompts_are_not_compared(mars_tiny):
    runs = [decode(mars_tiny, prompt, ONE).finish() for prompt in PROMPTS[:2]]
    with pytest.raises(ValueError, match="prompts"):
        between(*runs)


@pytest.mark.parametrize(
    ("one", "other", "index"),
    [([], [], None), ([1, 2], [1, 2], None), ([1], [1, 2], 1), ([1, 2], [], 0), ([1, 3, 2], [1, 2, 2], 1)],
)
def test_the_end_of_the_shorter_one_is_a_difference(one, other, index):
    assert first_difference(one, other) == index
