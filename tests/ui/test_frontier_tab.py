"""The Frontier tab in a real browser: recorded points, real sweeps, and their answers."""

import json
import re
from dataclasses import replace

import pytest
from acts import choose, fits, is_open, set_slider
from playwright.sync_api import Page, expect

from mars_demo.decoding.decode import decode
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import AR, Frontier, Outcome, Setting
from mars_demo.evaluation.sweep import Sweep, grid
from mars_demo.ui.knobs import Knobs
from mars_demo.ui.tabs import frontier as tab

COMMAND = "python -m benchmarks.frontier --output assets/results/frontier.json"
PROMPTS = 12
LOW = Setting("mars", "probability", 0.3)
HOSTILE = "<img src=x onerror=alert(1)> **bold** $x$"


@pytest.fixture(scope="module")
def swept(mars_tiny) -> Frontier:
    """Return a few points, one with a τ so low that more answers are wrong; one of them is hostile."""
    settings = [*grid(mars_tiny, ["probability"], [0.9, 0.3]), Setting("mars", "margin", 0.9)]
    swept = Sweep(mars_tiny, "worlds", PROMPTS, settings, size=12).finish()
    low, worst = swept.find(LOW), worst_of(swept)
    outcomes = [replace(one, text=HOSTILE) if one is worst else one for one in low.outcomes]
    changed = replace(low, outcomes=tuple(outcomes))
    swept = replace(swept, points=tuple(changed if point is low else point for point in swept.points))
    return Frontier.read(swept.record())  # with rounded times


def worst_of(swept: Frontier) -> Outcome:
    """Return the first answer of the list: wrong, and different from AR's."""
    return next(one for one in swept.find(LOW).wrong if one.leaves is not None)


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


# ------------------------------------------------------------------------------ recorded results


@pytest.mark.parametrize("width", [1280, pytest.param(390, marks=pytest.mark.full)])
def test_recorded_points_appear_at_once_and_a_prompt_is_raced(open_tab, swept, mars_tiny, width):
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
    worst, outcome = worst_of(swept), swept.find(LOW).different[-1]
    first = [swept.prompts[worst.number], HOSTILE, re.compile(rf"✗.*\b{worst.leaves + 1}$")]
    expect(cells(rows(page, "answers").first)).to_have_text(first)
    text = swept.prompts[outcome.number]
    chosen(page, "prompt").press_sequentially(text)  # with the keyboard, as the dropdown allows
    page.keyboard.press("Enter")
    expect(chosen(page, "prompt")).to_have_value(text)

    page.locator("#frontier-race-prompt").click()
    is_open(page, "Race")
    expect(page.locator("#stage .prompt")).to_have_text(text)
    expect(page.locator("#stage .verdict")).to_be_in_viewport()
    expect(page.locator("#stage .verdict")).to_contain_text(re.compile(rf"\b{outcome.leaves + 1}\b"))
    expect(page.locator("#prompt textarea")).to_have_value(text)
    expect(page.locator("#tau input[type=number]")).to_have_value("0.3")
    expect(page.locator("#mode input[name=mars]")).to_be_checked()
    expect(page).not_to_have_url(re.compile("tab="))
    for setting in (AR, LOW):
        run = decode(mars_tiny, text, setting.request(160)).finish()
        tokens = [(step, slot) for step in run.passes for slot in range(step.accepted)]
        step, slot = tokens[outcome.leaves]
        differs = page.locator(f'#stage .lane[data-lane="{run.settings.mode}"] .differs')
        expect(differs).to_have_attribute("data-pass", f"{step.number - 1}")
        expect(differs).to_have_attribute("data-slot", f"{slot}")


# ------------------------------------------------------------------------------------- new sweeps


def test_a_sweep_draws_its_points(open_tab):
    page = open_tab()
    pick(page, LOW)
    set_slider(page, "frontier-limit", 8)
    page.locator("#frontier-taus textarea, #frontier-taus input").fill("0.9, 0.5")
    page.locator("#frontier-run").click()
    expect(page.locator("#frontier-about")).not_to_contain_text(COMMAND)
    expect(chosen(page, "point")).to_have_value("")
    expect(page.locator("#frontier-run")).to_be_enabled()
    expect(page.locator("#frontier-said")).to_contain_text(re.compile(r"Measured\D+\b4 of 4\b.*\b8 of 8\b"))
    expect(points(page)).to_have_count(4)
    expect(rows(page)).to_have_text([re.compile(name) for name in ("AR", "lossless", "0.9", "0.5")])
    choose(page, "frontier-model", "ar-tiny")
    expect(page.locator("#frontier-about")).to_contain_text("ar-tiny")
    expect(page.locator("#frontier-chart")).to_be_hidden()
    expect(rows(page)).to_have_count(0)


def test_a_grid_that_is_too_large_is_refused():
    taus = ", ".join(f"0.{n}" for n in range(10, 40))
    with pytest.raises(ValueError, match="30.*12"):
        next(tab.measure("mars-tiny", "worlds", 8, taus, [], "", Knobs()))
