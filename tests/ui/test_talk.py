"""Every URL of the speaker's page opens in talk view and shows what it names."""

import re
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from on_stage import says
from playwright.sync_api import Page, expect

from mars_demo.assets import read_json
from mars_demo.ui.components.stage import BASELINE
from mars_demo.ui.tabs.learn import CHAPTERS
from mars_demo.views import recordings

DOCS = Path(__file__).resolve().parents[2] / "docs"
pytestmark = pytest.mark.full

URLS = list(dict.fromkeys(re.findall(r"`\?([^`]+)`", (DOCS / "talk.md").read_text("utf-8"))))
SCREEN = {"width": 1280, "height": 720}
RUNS = {entry["id"]: entry for entry in recordings.index()}
PROMPTS = {example["id"]: example["prompt"] for example in read_json("prompts.json")}


def shows_run(page: Page, query: dict) -> None:
    expect(page.locator("#stage .recordings")).to_have_value(query["run"])
    run = RUNS[query["run"]]
    expect(page.locator("#prompt textarea")).to_have_value(run["prompt"])
    for mode in run["modes"]:
        expect(page.locator(f'#stage .lane[data-lane="{mode}"] .token').first).to_be_visible()
    if "pass" in query:
        expect(page.locator(f'#stage .lane[data-lane="{query["lane"]}"].focused')).to_be_visible()
        expect(page.locator("#stage .caption")).to_have_text(says(query["pass"]))


def races(page: Page, query: dict) -> None:
    """Check that what the URL sets is what Run then races."""
    expect(page.locator("#prompt textarea")).to_have_value(PROMPTS[query["prompt"]])
    expect(page.locator("#model input")).to_have_value(query["model"])
    page.locator("#run").click()
    for mode in (BASELINE, *query["mode"].split(",")):
        expect(page.locator(f'#stage .lane[data-lane="{mode}"] .token').first).to_be_visible()
    expect(page.locator('#stage .lane[data-lane="mars"] .setting')).to_have_text(says(query["tau"]))
    expect(page.locator("#run")).to_be_enabled()


def shows_tab(page: Page, query: dict) -> None:
    expect(page.get_by_role("tab", name=query["tab"])).to_have_attribute("aria-selected", "true")
    if "chapter" in query:
        chapter = next(one for one in CHAPTERS if one["id"] == query["chapter"])
        expect(page.get_by_role("heading", name=chapter["title"])).to_be_in_viewport()
        expect(page.locator("#lesson-grid [data-cells]").first).to_be_in_viewport()
    else:
        expect(page.locator("#frontier .point").first).to_be_in_viewport()


@pytest.fixture
def errors(module_page):
    """What the module's page writes to its console as errors."""
    lines, page = [], module_page[0]

    def note(line):
        if line.type == "error":
            lines.append(line.text)

    page.on("console", note)
    yield lines
    page.remove_listener("console", note)


@pytest.mark.parametrize("query", URLS)
def test_a_url_of_the_talk_shows_what_it_names(visit, errors, query):
    named = dict(parse_qsl(query, strict_parsing=True))
    assert named["view"] == "talk"
    page = visit(query, viewport=SCREEN)
    expect(page.locator("#talk-row")).to_be_visible()
    if "run" in named:
        shows_run(page, named)
    elif "prompt" in named:
        races(page, named)
    else:
        shows_tab(page, named)
    page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=SCREEN["width"])
    assert errors == []
