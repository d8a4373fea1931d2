"""The Frontier tab in a real browser: recorded points, real sweeps, and their answers."""

import csv
import json
import re
from dataclasses import replace

import pytest
from acts import choose, fits, is_open, press, set_slider
from playwright.sync_api import Page, expect

from mars_demo.decoding.decode import decode
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import AR, COLUMNS, Frontier, Setting
from mars_demo.evaluation.paper_tables import paper_curves
from mars_demo.evaluation.sweep import Sweep, grid
from mars_demo.ui.tabs import frontier as tab

COMMAND = "python -m benchmarks.frontier --output assets/results/frontier.json"
PROMPTS = 12
LOW = Setting("mars", "probability", 0.3)
PAPER = sum(map(len, paper_curves().values()))  # points of the paper's τ sweep
HOSTILE = "<img src=x onerror=alert(1)> **bold** $x$"


@pytest.fixture(scope="module")
def swept(mars_tiny) -> Frontier:
    """Return a few points, one with a τ so low that more answers are wrong; one of them is hostile."""
    settings = [*grid(mars_tiny, ["probability"], [0.9, 0.3]), Setting("mars", "margin", 0.9)]
    swept = Sweep(mars_tiny, "worlds", PROMPTS, settings, size=12).finish()
    low = swept.find(LOW)
    outcomes = [replace(one, text=HOSTILE) if one is low.wrong[0] else one for one in low.outcomes]
    changed = replace(low, outcomes=tuple(outcomes))
    swept = replace(swept, points=tuple(changed if point is low else point for point in swept.points))
    return Frontier.read(swept.record())  # with rounded times


@pytest.fixture
def open_tab(visit, tmp_path, monkeypatch, swept):
    """Open the tab with the points of the sweep."""
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    record = {"command": COMMAND, "machine": swept.machine, "sweeps": [swept.record()]}
    (tmp_path / "frontier.json").write_text(json.dumps(record))

    def open_it(query: str = "", **options) -> Page:
        page = visit(f"tab=frontier{query}", **options)
        expect(points(page)).to_have_count(len(swept.points))
        return page

    return open_it


def points(page: Page):
    """Return the marks of the chart."""
    return page.locator("#frontier-chart .scatterlayer .point")


def rows(page: Page, table: str = "table"):
    return page.locator(f"#frontier-{table} .virtual-row")


def cells(row):
    return row.locator(".body-cell")


def chosen(page: Page, what: str):
    return page.locator(f"#frontier-{what} input")


def pick(page: Page, setting: Setting) -> None:
    cells(rows(page).filter(has_text=setting.title)).nth(1).click()
    expect(chosen(page, "point")).to_have_value(setting.title)
    expect(rows(page, "answers").first).to_be_visible()


def measure(page: Page, taus: str = "0.9", prompts: int = 8) -> None:
    set_slider(page, "frontier-limit", prompts)
    page.locator("#frontier-taus textarea, #frontier-taus input").fill(taus)
    page.locator("#frontier-run").click()


def has_started(page: Page) -> None:
    """Wait until a new sweep has its first point."""
    expect(page.locator("#frontier-about")).not_to_contain_text(COMMAND)
    expect(points(page).first).to_be_attached()


def downloaded(page: Page) -> list[dict]:
    with page.expect_download() as waiting:
        page.locator("#frontier-csv").click()
    return list(csv.DictReader(waiting.value.path().read_text("utf-8").splitlines()))


# ------------------------------------------------------------------------------ recorded results


@pytest.mark.parametrize("width", [1280, pytest.param(390, marks=pytest.mark.full)])
def test_recorded_points_appear_at_once_and_one_of_them_sets_the_race(open_tab, swept, width):
    page = open_tab(viewport={"width": width, "height": 844})
    for fact in (COMMAND, swept.machine):
        expect(page.locator("#frontier-about")).to_contain_text(fact)
    expect(rows(page)).to_have_count(len(swept.points))
    for point, row in zip(swept.points, rows(page).all()):
        expect(cells(row)).to_have_text(list(swept.texts(point).values()))
    fits(page)
    page.get_by_role("radio", name="answers per second").check()
    expect(page.locator("#frontier-chart .xtitle")).to_have_text("answers per second")

    pick(page, LOW)
    low = swept.find(LOW)
    for kind, many in (("wrong", low.wrong), ("different from AR", low.different), ("all", low.outcomes)):
        expect(page.get_by_label(f"{kind} ({len(many)})")).to_be_attached()
    expect(page.get_by_label(f"wrong ({len(low.wrong)})")).to_be_checked()
    expect(rows(page, "answers")).to_have_count(len(low.wrong))
    first = cells(rows(page, "answers").first)
    expect(first).to_have_text([swept.prompts[low.wrong[0].number], HOSTILE, re.compile("✗")])

    page.locator("#frontier-race").click()
    is_open(page, "Race")
    expect(page.locator("#stage .verdict" if width == 390 else "#prompt")).to_be_in_viewport()
    expect(page.locator("#tau input[type=number]")).to_have_value("0.3")
    expect(page.locator("#mode input[name=mars]")).to_be_checked()
    expect(page).not_to_have_url(re.compile("tab="))


@pytest.mark.full
def test_the_paper_can_be_added_and_no_records_draw_nothing(open_tab, swept):
    page = open_tab()
    page.locator("#frontier-paper input").check()
    expect(points(page)).to_have_count(len(swept.points) + PAPER)
    choose(page, "frontier-model", "ar-tiny")
    expect(page.locator("#frontier-about")).to_contain_text("ar-tiny")
    expect(page.locator("#frontier-chart")).to_be_hidden()
    expect(rows(page)).to_have_count(0)


@pytest.mark.full
def test_a_prompt_is_raced_with_the_first_different_token(open_tab, swept, mars_tiny):
    """Choose the point and the prompt with the keyboard, as dropdowns beside the tables allow."""
    page = open_tab()
    for what, text in (("point", LOW.title), ("prompt", None)):
        if what == "prompt":
            page.get_by_label("different from AR").check()
            outcome = swept.find(LOW).different[0]
            text = swept.prompts[outcome.number]
            different = cells(rows(page, "answers").first)
            expect(different.last).to_contain_text(re.compile(rf"\b{outcome.leaves + 1}\b"))
        chosen(page, what).press_sequentially(text)
        page.keyboard.press("Enter")
        expect(chosen(page, what)).to_have_value(text)
    page.locator("#frontier-race-prompt").click()
    is_open(page, "Race")
    expect(page.locator("#stage .prompt")).to_have_text(text)
    expect(page.locator("#stage .verdict")).to_contain_text(re.compile(rf"\b{outcome.leaves + 1}\b"))
    expect(page.locator("#prompt textarea")).to_have_value(text)

    for setting in (AR, LOW):
        run = decode(mars_tiny, text, setting.request(160)).finish()
        tokens = [(step, slot) for step in run.passes for slot in range(step.accepted)]
        step, slot = tokens[outcome.leaves]
        differs = page.locator(f'#stage .lane[data-lane="{run.settings.mode}"] .differs')
        expect(differs).to_have_attribute("data-pass", f"{step.number - 1}")
        expect(differs).to_have_attribute("data-slot", f"{slot}")


# ------------------------------------------------------------------------------------- new sweeps


def test_a_sweep_draws_its_points_and_can_be_downloaded(open_tab):
    page = open_tab()
    pick(page, LOW)
    page.locator("#frontier-paper input").check()
    measure(page, "0.9, 0.5")
    has_started(page)
    expect(chosen(page, "point")).to_have_value("")
    expect(page.locator("#frontier-run")).to_be_enabled()
    expect(page.locator("#frontier-said")).to_contain_text(re.compile(r"\b4\D+\b8\b"))
    expect(points(page)).to_have_count(4 + PAPER)
    measured = downloaded(page)
    assert [(row["mode"], row["tau"]) for row in measured] == [
        ("ar", ""), ("lossless", ""), ("mars", "0.9"), ("mars", "0.5")
    ]  # fmt: skip
    assert {name.replace(" ", "_") for name in COLUMNS} < measured[0].keys()
    expect(cells(rows(page).last).nth(1)).to_contain_text(f"{float(measured[3]['accuracy']):.1%}")


@pytest.mark.full
def test_a_stopped_sweep_keeps_its_points(open_tab):
    page = open_tab()
    measure(page, ", ".join(f"0.{n}" for n in range(10, 22)), prompts=240)
    has_started(page)
    press(page.locator("#frontier-stop"))
    expect(page.locator("#frontier-run")).to_be_enabled()
    expect(page.locator("#frontier-said")).to_contain_text(re.compile(r"\b([1-9]|1[0-3])\D+\b240\b"))
    expect(points(page)).to_have_count(len(downloaded(page)))


@pytest.mark.parametrize(
    "limit, taus, fact",
    [
        (float("nan"), "1", "nan"),
        (481, "1", "480"),
        (8.5, "1", r"8\.5"),
        (8, "1, nan", "from 0 to 1"),
        (8, ", ".join(f"0.{n}" for n in range(10, 30)), "12"),
    ],
)
def test_invalid_numbers_are_refused(limit, taus, fact):
    with pytest.raises(ValueError, match=fact):
        tab.checked(limit, taus)
