"""Every address of the speaker's page opens in talk view and shows what it names."""

import re
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from playwright.sync_api import Page, expect

from mars_demo.assets import read_json
from mars_demo.ui.components.stage import BASELINE
from mars_demo.ui.tabs.learn import CHAPTERS
from mars_demo.views import recordings

DOCS = Path(__file__).resolve().parents[2] / "docs"
ADDRESSES = list(dict.fromkeys(re.findall(r"`\?([^`]+)`", (DOCS / "talk.md").read_text("utf-8"))))
SCREEN = {"width": 1280, "height": 720}
RUNS = {entry["id"]: entry for entry in recordings.index()}
PROMPTS = {example["id"]: example["prompt"] for example in read_json("prompts.json")}


def shows_run(page: Page, asked: dict) -> None:
    expect(page.locator("#stage .recordings")).to_have_value(asked["run"])
    run = RUNS[asked["run"]]
    expect(page.locator("#prompt textarea")).to_have_value(run["prompt"])
    for mode in run["modes"]:
        expect(page.locator(f'#stage .lane[data-lane="{mode}"] .token').first).to_be_visible()
    if "pass" in asked:
        expect(page.locator(f'#stage .lane[data-lane="{asked["lane"]}"].focused')).to_be_visible()
        expect(page.locator("#stage .caption")).to_contain_text(f"Forward {asked['pass']}:")


def races(page: Page, asked: dict) -> None:
    """What the address sets is what Run then races."""
    expect(page.locator("#prompt textarea")).to_have_value(PROMPTS[asked["prompt"]])
    expect(page.locator("#model input")).to_have_value(asked["model"])
    page.locator("#run").click()
    for mode in (BASELINE, *asked["mode"].split(",")):
        expect(page.locator(f'#stage .lane[data-lane="{mode}"] .token').first).to_be_visible()
    expect(page.locator('#stage .lane[data-lane="mars"] .setting')).to_contain_text(f"τ {asked['tau']}")
    expect(page.locator("#run")).to_be_enabled()


def shows_tab(page: Page, asked: dict) -> None:
    expect(page.get_by_role("tab", name=asked["tab"])).to_have_attribute("aria-selected", "true")
    if "chapter" in asked:
        chapter = next(one for one in CHAPTERS if one["id"] == asked["chapter"])
        expect(page.get_by_role("heading", name=chapter["title"])).to_be_in_viewport()
        expect(page.locator("#lesson-grid [data-cells]").first).to_be_in_viewport()
    else:
        expect(page.locator("#frontier .point").first).to_be_in_viewport()


@pytest.mark.parametrize("query", ADDRESSES)
def test_an_address_of_the_talk_shows_what_it_names(visit, query):
    page = visit(viewport=SCREEN)
    errors = []
    page.on("console", lambda line: line.type == "error" and errors.append(line.text))
    asked = dict(parse_qsl(query, strict_parsing=True))
    assert asked["view"] == "talk"
    page.goto(f"{page.url.partition('?')[0]}?{query}")
    expect(page.locator("#talk-row")).to_be_visible()
    if "run" in asked:
        shows_run(page, asked)
    elif "prompt" in asked:
        races(page, asked)
    else:
        shows_tab(page, asked)
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREEN["width"]
    assert errors == []


def test_the_talk_has_a_stop_for_each_row_of_its_table():
    text = (DOCS / "talk.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d) \| (\d+):(\d\d) \| `\?([^`]+)` \|", text, re.MULTILINE)
    assert [int(number) for number, *_ in rows] == list(range(1, len(rows) + 1))
    assert re.findall(r"^### (\d)\.", text, re.MULTILINE) == [number for number, *_ in rows]
    begin = [60 * int(minutes) + int(seconds) for _, minutes, seconds, _ in rows]
    assert begin == sorted(begin) and begin[0] == 0 and begin[-1] < 600
