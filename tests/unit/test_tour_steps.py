"""The steps of the tour, and facts about its races that its texts state."""

import pytest

from mars_demo.assets import read_json
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request

STEPS = read_json("tour.json")
RACES = {step["race"]["name"]: step["race"] for step in STEPS if "race" in step}


@pytest.fixture(scope="module")
def answers(mars_tiny):
    """Return the answer of each race with the largest window."""
    return {
        name: decode(mars_tiny, race["prompt"], Request(race["mode"], race["tau"])).finish()
        for name, race in RACES.items()
    }


@pytest.mark.parametrize("name", RACES)
def test_exactly_one_choice_is_right_for_every_result(name):
    race = RACES[name]
    for number in range(race["asks"] == "first", 300):
        right = [low for low, high in race["choices"] if low <= number and (high is None or number <= high)]
        assert len(right) == 1, number


def test_most_forwards_of_the_hard_text_accept_one_token(answers):
    accepted = [step.accepted for step in answers["hard"].passes]
    assert accepted[0] == 1
    assert sum(accepted) / len(accepted) < 1.5


def test_the_repeating_text_uses_n_gram_drafts_and_is_the_answer_of_ar(answers, mars_tiny):
    run, race = answers["copying"], RACES["copying"]
    slots = [slot for step in run.passes for slot in step.slots[: step.accepted]]
    assert sum(slot.source == "copy" for slot in slots) >= 6
    assert run.token_ids == decode(mars_tiny, race["prompt"], Request("ar")).finish().token_ids
    numbers = race["prompt"].partition(": ")[2]
    assert run.text.count(numbers) == 2  # "the same list twice"
    assert run.text.endswith(f"From largest to smallest: {numbers}.")
