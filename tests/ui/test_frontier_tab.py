"""The Frontier tab in a real browser: recorded points, real sweeps, and their answers."""

import re

import pytest
from acts import choose, fits, is_open, set_slider
from playwright.sync_api import Page, expect

from mars_demo.core.acceptance import CRITERIA
from mars_demo.decoding.decode import decode
from mars_demo.evaluation import results
from mars_demo.evaluation.calibration import calibrations, kept
from mars_demo.evaluation.frontier import AR, Frontier, Setting
from mars_demo.evaluation.sweep import first_difference
from mars_demo.ui import options
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.tabs import frontier as tab

RECORDED = results.read_results("frontier.json")
SWEPT = Frontier.read(next(one for one in RECORDED["sweeps"] if one["model"] == "mars-tiny"))
LOW = Setting("mars", "probability", 0.8)


@pytest.fixture
def open_tab(visit):
    def open_it(**options) -> Page:
        page = visit("tab=frontier", **options)
        expect(points(page)).to_have_count(len(SWEPT.points))
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


@pytest.mark.parametrize("width", [1280, pytest.param(390, marks=pytest.mark.full)])
def test_recorded_points_appear_at_once_and_a_prompt_is_raced(open_tab, mars_tiny, width):
    page = open_tab(viewport={"width": width, "height": 844})
    for fact in (SWEPT.command, SWEPT.commit, SWEPT.machine):
        expect(page.locator("#frontier-about")).to_contain_text(fact)
    for index, point in enumerate(SWEPT.points[:6]):
        expect(cells(rows(page).nth(index))).to_have_text(list(SWEPT.texts(point).values()))
    page.locator("#calibrated > button").click()
    for score, measured in calibrations("mars-tiny").items():
        page.get_by_role("radio", name=CRITERIA[score].title).check()
        expect(page.locator("#calibrated-sentence")).to_have_text(measured.sentence.replace("**", ""))
    expect(page.locator("#calibrated-chart .scatterlayer .trace")).to_have_count(4)
    fits(page)
    page.get_by_role("radio", name="answers per second").check()
    expect(page.locator("#frontier-chart .xtitle")).to_have_text("answers per second")

    pick(page, LOW)
    different = SWEPT.find(LOW).different
    worst = next(one for one in different if not one.right)
    graded = re.compile(rf"✗.*\b{worst.leaves + 1}\b")
    first = [SWEPT.prompts[worst.number], worst.text, graded]
    expect(cells(rows(page, "answers").first)).to_have_text(first)
    text = next(prompt for one in different[::-1] if "\n" not in (prompt := SWEPT.prompts[one.number]))
    chosen(page, "prompt").press_sequentially(text)  # with the keyboard, as the dropdown allows
    page.keyboard.press("Enter")
    expect(chosen(page, "prompt")).to_have_value(text)

    page.locator("#frontier-race-prompt").click()
    is_open(page, "Race")
    expect(page.locator("#stage .prompt")).to_have_text(text)
    expect(page.locator("#stage .verdict")).to_be_in_viewport()
    expect(page.locator("#prompt textarea")).to_have_value(text)
    expect(page.locator("#tau input[type=number]")).to_have_value("0.8")
    expect(page.locator("#tau")).to_contain_text(kept("mars-tiny"))
    expect(page.locator("#mode input[name=mars]")).to_be_checked()
    expect(page).not_to_have_url(re.compile("tab="))
    runs = [decode(mars_tiny, text, setting.request(160)).finish() for setting in (AR, LOW)]
    leaves = first_difference(*(run.token_ids for run in runs))
    expect(page.locator("#stage .verdict")).to_contain_text(re.compile(rf"\b{leaves + 1}\b"))
    for run in runs:
        tokens = [(step, slot) for step in run.passes for slot in range(step.accepted)]
        step, slot = tokens[leaves]
        differs = page.locator(f'#stage .lane[data-lane="{run.settings.mode}"] .differs')
        expect(differs).to_have_attribute("data-pass", f"{step.number - 1}")
        expect(differs).to_have_attribute("data-slot", f"{slot}")


def test_the_source_names_the_precision_of_the_sweep_and_of_races():
    MODELS.serve(options.read_options(["--only", "--model", "mars-tiny", "--dtype", "int8"]))
    assert MODELS.load().precision == "int8"
    *_, about = tab.recorded_frontier("mars-tiny", "tasks")
    assert f"{SWEPT.machine}; races here run in int8." in about and "float32" in SWEPT.machine


def test_a_sweep_draws_its_points(open_tab):
    page = open_tab()
    pick(page, LOW)
    set_slider(page, "frontier-limit", 8)
    page.locator("#frontier-taus textarea, #frontier-taus input").fill("0.9, 0.5")
    page.locator("#frontier-run").click()
    expect(page.locator("#frontier-about")).not_to_contain_text(SWEPT.command)
    expect(chosen(page, "point")).to_have_value("")
    expect(page.locator("#frontier-said")).to_contain_text(re.compile(r"Measured\D+\b4 of 4\b.*\b8 of 8\b"))
    expect(points(page)).to_have_count(4)
    expect(rows(page)).to_have_text([re.compile(name) for name in ("AR", "lossless", "0.9", "0.5")])
    expect(page.locator("#frontier-run")).to_be_enabled()
    choose(page, "frontier-model", "ar-tiny")
    expect(page.locator("#frontier-about")).to_contain_text("ar-tiny")
    expect(page.locator("#frontier-chart")).to_be_hidden()
    expect(page.locator("#calibrated")).to_be_hidden()
    expect(rows(page)).to_have_count(0)
