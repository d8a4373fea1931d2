"""The URLs on the speaker's page."""

import re
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from mars_demo.core.assets import read_json
from mars_demo.core.modes import MODES
from mars_demo.core.trace import read_runs
from mars_demo.show import recordings
from mars_demo.ui.lessons import CHAPTERS
from mars_demo.ui.page import TABS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "talk.md"
URLS = list(dict.fromkeys(re.findall(r"`\?([^`]+)`", DOCUMENT.read_text("utf-8"))))
PROMPTS = {example["id"]: example["model"] for example in read_json("prompts.json")}


@pytest.mark.parametrize("query", URLS)
def test_urls_of_the_talk_name_existing_things(query):
    named = dict(parse_qsl(query, strict_parsing=True))
    assert named.pop("view") == "talk"
    if "run" in named:
        runs = {run.settings.mode: run for run in read_runs(recordings.recording(named["run"]).split("\n"))}
        assert int(named.get("pass", 0)) <= runs[named.get("lane", "ar")].forwards
    elif "prompt" in named:
        assert PROMPTS[named["prompt"]] == named["model"]
        assert set(named["mode"].split(",")) <= MODES.keys() and 0 <= float(named["tau"]) <= 1
    else:
        assert named["tab"] in TABS
        assert named.get("chapter", CHAPTERS[0]["id"]) in [chapter["id"] for chapter in CHAPTERS]
