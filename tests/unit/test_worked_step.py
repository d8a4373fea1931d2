"""The worked step of the lessons: the same decisions as the decoder's."""

import itertools
import math

import pytest

from mars_demo.decoding.acceptance import accepted
from mars_demo.ui.lessons.chapters import CHAPTERS
from mars_demo.views.worked_step import ACCEPTED, DROPPED, IGNORED, REJECTED, asked, worked

LESSON = next(chapter["element"] for chapter in CHAPTERS if chapter["id"] == "one-step")


def states(step: dict) -> list[list[str]]:
    return [[slot["state"] for slot in window["slots"]] for window in step["windows"]]


@pytest.mark.parametrize("tau", [0, 0.5, 0.95, 1])
def test_every_window_of_a_few_scores_equals_the_decoder(tau):
    for scores in itertools.product((0.0, 0.5, 0.95, 1.0), repeat=4):
        [window] = worked(tau, [scores])["windows"]
        count = accepted(scores, tau)
        [decided] = states({"windows": [window]})
        assert window["accepted"] == count == decided.count(ACCEPTED)
        assert decided[:count] == [ACCEPTED] * count
        for score, state in list(zip(scores, decided))[count + 1 :]:
            assert state == (DROPPED if tau < 1 and score >= tau else IGNORED)
        assert (REJECTED in decided) == (count < 4 and tau < 1)


@pytest.mark.parametrize(
    "settings",
    [
        {"tau": True, "scores": LESSON["scores"]},
        {"tau": 0.9, "scores": LESSON["scores"][:1]},
        {"tau": 0.9, "scores": [[0.9] * 5, [0.9] * 4]},
        {"tau": 0.9, "scores": [[0.9] * 4, [math.nan] * 4]},
        {"tau": 1.1, "scores": LESSON["scores"]},
    ],
)
def test_invalid_values_of_a_browser_are_refused(settings):
    with pytest.raises(ValueError) as caught:
        asked(settings)
    assert "\n" not in str(caught.value)
