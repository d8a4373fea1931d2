"""The URLs on the speaker's page."""

import re
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from mars_demo.core.assets import read_json
from mars_demo.core.modes import MODES
from mars_demo.core.trace import Run, read_runs
from mars_demo.show import recordings
from mars_demo.ui.lessons import CHAPTERS
from mars_demo.ui.page import TABS

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "talk.md"
URLS = list(dict.fromkeys(re.findall(r"`\?([^`]+)`", DOCUMENT.read_text("utf-8"))))
PROMPTS = {example["id"]: example["model"] for example in read_json("prompts.json")}


@pytest.mark.parametrize("query", URLS)
def test_urls_of_the_talk_name_existing_things(query):
    named = dict(parse_qsl(query, strict_parsing=True))
    assert named.pop("view") == "talk"
    if "run" in named:
        assert int(named.get("pass", 0)) <= lanes(named["run"])[named.get("lane", "ar")].forwards
    elif "prompt" in named:
        assert PROMPTS[named["prompt"]] == named["model"]
        assert set(named["mode"].split(",")) <= MODES.keys() and 0 <= float(named["tau"]) <= 1
    else:
        assert named["tab"] in TABS
        assert named.get("chapter", CHAPTERS[0]["id"]) in [chapter["id"] for chapter in CHAPTERS]


def lanes(run: str) -> dict[str, Run]:
    return {one.settings.mode: one for one in read_runs(recordings.recording(run).split("\n"))}


def test_sentences_of_the_talk_are_true_of_its_recordings():
    text = " ".join(DOCUMENT.read_text("utf-8").split())
    bus, story, low, fields = map(lanes, ("bus", "story", "too-low", "fields"))
    fifth = bus["mars"].passes[4]
    said = (
        f"fifth forward predicted {NUMBERS[len(fifth.slots)]} tokens and accepted {NUMBERS[fifth.accepted]}"
    )
    assert said in text
    before = "".join(slot.text for step in bus["mars"].passes[:5] for slot in step.slots[: step.accepted])
    assert before.endswith("28 - 7 = 2") and bus["mars"].passes[5].slots[0].text == "1"
    assert bus["mars"].forwards == bus["lossless"].forwards and bus["lossless"].text == bus["ar"].text
    assert story["mars"].forwards < story["ar"].forwards and story["mars"].seconds > story["ar"].seconds
    told = lanes("lossless-lossy")
    assert told["lossless"].seconds > told["ar"].seconds
    assert "c (1)" in low["mars"].text and low["mars"].settings.tau == 0.5
    assert all(
        any(s.source == "forced" for step in run.passes for s in step.slots) for run in fields.values()
    )
