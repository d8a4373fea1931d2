"""The worked step of the lessons decides as the decoder does."""

import itertools
import math
import re

import pytest

from mars_demo.decoding.acceptance import accepted
from mars_demo.ui.lessons.chapters import CHAPTERS
from mars_demo.views.worked_step import ACCEPTED, DROPPED, IGNORED, REJECTED, asked, worked

LESSON = next(chapter["element"] for chapter in CHAPTERS if chapter["id"] == "one-step")


def states(step: dict) -> list[list[str]]:
    return [[slot["state"] for slot in window["slots"]] for window in step["windows"]]


def test_the_lessons_own_step():
    """What the chapter's text says of it."""
    step = worked(LESSON["tau"], LESSON["scores"])
    assert LESSON["tau"] == 0.95 and LESSON["scores"][0] == [0.99, 0.97, 0.80, 0.99]
    first, second = step["windows"]
    assert states(step)[0] == [ACCEPTED, ACCEPTED, REJECTED, DROPPED]
    assert (first["first"], first["accepted"], second["first"]) == (1, 2, 3)
    assert second["slots"][0]["score"] < LESSON["tau"] and states(step)[1][0] == ACCEPTED
    assert {"4", "3"} <= set(re.findall(r"\d+", first["words"]))  # the dropped slot, and the next place


@pytest.mark.parametrize("tau", [0, 0.5, 0.95, 1])
def test_every_window_of_a_few_scores_is_the_decoders(tau):
    for scores in itertools.product((0.0, 0.5, 0.95, 1.0), repeat=4):
        [window] = worked(tau, [scores])["windows"]
        count = accepted(scores, tau)
        [found] = states({"windows": [window]})
        assert window["accepted"] == count == found.count(ACCEPTED)
        assert found[:count] == [ACCEPTED] * count
        for score, state in list(zip(scores, found))[count + 1 :]:
            assert state == (DROPPED if tau < 1 and score >= tau else IGNORED)
        assert (REJECTED in found) == (count < 4 and tau < 1)


@pytest.mark.parametrize(
    "settings",
    [
        None,
        {"tau": True, "scores": LESSON["scores"]},
        {"tau": 0.9, "scores": LESSON["scores"][:1]},
        {"tau": 0.9, "scores": [[0.9] * 5, [0.9] * 4]},
        {"tau": 0.9, "scores": [[0.9] * 4, [None] * 4]},
        {"tau": 0.9, "scores": [[0.9] * 4, [math.nan] * 4]},
        {"tau": 1.1, "scores": LESSON["scores"]},
    ],
)
def test_what_a_browser_should_not_send_is_refused(settings):
    with pytest.raises(ValueError) as caught:
        asked(settings)
    assert "\n" not in str(caught.value)


def test_what_a_browser_sends_is_answered():
    assert asked({"tau": 0.95, "scores": LESSON["scores"]}) == worked(0.95, LESSON["scores"])
