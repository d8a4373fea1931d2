"""The lessons: their form, and the recorded runs of which they say something."""

import itertools
import json

import pytest

from mars_demo.core.assets import ASSETS, read_json
from mars_demo.core.trace import Run, read_text
from mars_demo.show import recordings
from mars_demo.ui.lessons import figures
from mars_demo.ui.lessons.chapters import CHAPTERS

LONGEST = 150  # words of a chapter
ELEMENTS = {chapter["id"]: chapter["element"] for chapter in CHAPTERS}


def options(chapter: str) -> dict[str, dict]:
    return {option["title"]: option for option in ELEMENTS[chapter]["options"]}


def runs(option: dict) -> dict[str, Run]:
    """Return the recorded runs of an option by mode."""
    return {run.settings.mode: run for run in read_text(recordings.recording(option["run"]))}


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter["id"])
def test_a_chapter_is_short_and_shows_its_figure(chapter):
    assert len(chapter["text"].split()) <= LONGEST
    assert any(update["visible"] for update in figures.figure(chapter).values())


def test_every_chapter_has_its_place():
    order = read_json("lessons", "order.json")
    files = {path.stem for path in (ASSETS / "lessons").glob("*.json")} - {"order"}
    assert order == [chapter["id"] for chapter in CHAPTERS]
    assert sorted(order) == sorted(files)


@pytest.mark.full
def test_masks_never_stay_in_the_cache():
    """The text of a run alone says what each of its forwards has in the cache."""
    shown = list(options("cache").values())
    run = runs(shown[0])["mars"]
    numbers = [option["forward"] for option in shown]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    for option in shown:
        drawn = json_of(figures.forward(option)["grid"])
        streams = [cell["stream"] for cell in drawn["columns"]]
        *before, last = run.passes[: option["forward"] - 1]
        cached = run.settings.prompt_tokens + sum(step.accepted for step in before)
        new = [slot.text for slot in last.slots[: last.accepted]]
        masks = run.passes[option["forward"] - 1].positions - len(new)
        assert streams == ["cached"] * cached + ["new"] * len(new) + ["mask"] * masks
        assert [cell["label"] for cell in drawn["columns"][cached:][: len(new)]] == new


def json_of(update: dict) -> dict:
    return json.loads(update["value"])


@pytest.mark.parametrize("title", options("marginals"))
def test_two_masks_guess_the_same_token(title):
    """The titles are texts that only MARS writes; two slots of one forward accept the same token."""
    answers = runs(options("marginals")[title])
    assert title in answers["mars"].text and title not in answers["ar"].text
    accepted = [[slot.text for slot in step.slots[: step.accepted]] for step in answers["mars"].passes]
    twice = {first for step in accepted for first, second in itertools.pairwise(step) if first == second}
    assert twice & {f" {word}" for word in title.split()} or "0" in twice


def test_saved_forwards_are_not_always_saved_time():
    answers = {title: runs(option) for title, option in options("fast-texts").items()}
    faster = {title: run["ar"].seconds / run["mars"].seconds for title, run in answers.items()}
    fewer = {title: run["ar"].forwards / run["mars"].forwards for title, run in answers.items()}
    assert faster["derived"] > 2 and fewer["derived"] > 2
    assert fewer["copied"] > 1.3 and faster["copied"] < 1.1
    assert answers["copied"]["lossless"].text == answers["copied"]["ar"].text
    assert answers["copied"]["ar"].seconds > 1.5 * answers["copied"]["lossless"].seconds
    assert fewer["free"] < 1.1 and faster["free"] < 1.1
    assert fewer["free, and slower"] > 1 > faster["free, and slower"]


def test_masks_learn_to_guess():
    answers = {}
    for title, option in options("mask-training").items():
        [answers[title]] = read_text(figures.training(option)["stage"]["value"])
    right = "So there are 29 people on the bus."
    assert right in answers["160"].text and right not in answers["1"].text
    assert min(answers, key=lambda title: answers[title].forwards) == "160"


@pytest.mark.full
def test_the_methods_are_compared_beside_the_choice():
    element = ELEMENTS["neighbours"]
    table = figures.choice(element)["table"]["value"]
    for cells in (element["columns"], *element["rows"]):
        assert len(cells) == len(element["columns"]) and all(cell in table for cell in cells)
