"""The Learn tab in a real browser: every chapter, what lives beside it, and its address."""

import re

import pytest
from playwright.sync_api import Page, expect

from mars_demo.evaluation import paper_tables
from mars_demo.ui.tabs.learn import CHAPTERS, NOT_MEASURED

BESIDE = {
    "stage": "#lesson-stage .token",
    "race": "#lesson-stage .token",
    "grid": "#lesson-grid .matrix [data-cells]",
    "gaps": "#lesson-table table",
    "neighbours": "#lesson-table table",
    "figure": "#learn-page .js-plotly-plot .main-svg",
    "schedule": "#schedule .cell",
    "comparison": "#paper-table table",
}


@pytest.fixture
def open_chapter(visit):
    def open_it(chapter: str, **options) -> Page:
        page = visit(f"tab=learn&chapter={chapter}", **options)
        expect(heading(page)).to_contain_text(f" of {len(CHAPTERS)}: ")
        return page

    return open_it


def heading(page: Page):
    return page.locator("#chapter h3")


@pytest.mark.parametrize("number", range(len(CHAPTERS)), ids=[chapter["id"] for chapter in CHAPTERS])
def test_a_chapter_has_its_own_address_and_something_that_lives(open_chapter, number):
    chapter = CHAPTERS[number]
    page = open_chapter(chapter["id"])
    expect(heading(page)).to_have_text(f"{number + 1} of {len(CHAPTERS)}: {chapter['title']}")
    kind = chapter["element"]["kind"]
    expect(page.locator(BESIDE[kind]).first).to_be_visible()
    for other, selector in BESIDE.items():
        if selector != BESIDE[kind] and other != "figure":
            expect(page.locator(selector).locator("visible=true")).to_have_count(0)


def test_buttons_and_arrow_keys_turn_the_pages_and_the_address_follows(open_chapter):
    page = open_chapter("nonsense")
    expect(heading(page)).to_contain_text(CHAPTERS[0]["title"])
    expect(page.locator("#back")).to_be_disabled()
    page.locator("#next").click()
    expect(heading(page)).to_contain_text(CHAPTERS[1]["title"])
    expect(page).to_have_url(re.compile(f"chapter={CHAPTERS[1]['id']}"))
    page.keyboard.press("ArrowRight")
    expect(heading(page)).to_contain_text(CHAPTERS[2]["title"])
    page.keyboard.press("ArrowLeft")
    expect(heading(page)).to_contain_text(CHAPTERS[1]["title"])
    expect(page).to_have_url(re.compile(f"tab=learn.*chapter={CHAPTERS[1]['id']}"))


def test_the_chapter_on_the_window_races_with_its_own_slider(open_chapter):
    page = open_chapter("window")
    page.locator("#lesson-tau input[type=range]").fill("1")
    page.locator("#lesson-run").click()
    expect(page.locator("#lesson-stage .verdict")).to_contain_text("1.0 per forward", timeout=60_000)
    expect(page.locator("#lesson-stage .lane").nth(1).locator(".setting")).to_contain_text("τ 1.00")


def test_the_race_of_a_chapter_can_be_stopped_and_run_again(open_chapter, slow):
    page = open_chapter("window")
    run = page.locator("#lesson-run")
    page.locator("#lesson-tau input[type=range]").fill("1")
    run.click()
    expect(run).to_be_disabled()
    page.locator("#lesson-stop").click()
    expect(run).to_be_enabled()
    expect(page.locator("#lesson-stage .verdict")).to_contain_text("Stopped")
    run.click()
    expect(page.locator("#lesson-stage .verdict")).to_contain_text("1.0 per forward")


def test_the_table_of_gaps_fills_row_by_row(open_chapter):
    page = open_chapter("four-gaps")
    cells = page.locator("#lesson-table tbody tr td:first-child")
    for filled in (1, 2, 3, 4):
        expect(cells.filter(has_not_text="…")).to_have_count(filled)
        page.locator("#fill").click()
    expect(cells.filter(has_not_text="…")).to_have_count(1)


def test_every_table_of_the_paper_stands_above_ours_and_fits_a_phone(open_chapter):
    page = open_chapter("paper")
    page.set_viewport_size({"width": 390, "height": 844})
    known = {2: "28.7", 3: "22.2", 4: "1.46", 5: "241.9, 1.71×", 6: "58.6", 8: "47.5, 3.41", 9: "1.07"}
    assert known.keys() == paper_tables.TABLES.keys()
    for number, value in known.items():
        page.locator("#choice input").click()
        page.get_by_role("option", name=f"Table {number}: ").click()
        paper, ours = page.locator("#paper-table"), page.locator("#our-table")
        expect(paper).to_contain_text(f"Source: the paper's Table {number}:")
        expect(paper.locator("td").get_by_text(value, exact=True).first).to_be_attached()
        measured = paper_tables.here(number)
        if measured is None:
            expect(ours).to_contain_text(NOT_MEASURED)
        else:
            expect(ours.locator("tbody tr").first.locator("td")).to_have_text(
                measured.frame.iloc[0].fillna("–").tolist()
            )
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, number


def test_the_sweep_of_tau_is_drawn_for_the_paper_and_for_us(open_chapter):
    page = open_chapter("paper")
    plots = page.locator("#learn-page .js-plotly-plot")
    expect(page.locator("#our-table h4")).to_be_visible()
    expect(plots.locator("visible=true")).to_have_count(0)
    page.locator("#choice input").click()
    page.get_by_role("option", name="Table 8: ").click()
    expect(plots).to_have_count(2)
    for plot, curves in zip(plots.all(), (paper_tables.paper_curves(), paper_tables.our_curves())):
        expect(plot.locator(".legendtext")).to_have_text(list(curves))
        expect(plot.locator(".point")).to_have_count(sum(map(len, curves.values())))
    page.locator("#choice input").click()
    page.get_by_role("option", name="Table 9: ").click()
    expect(plots.locator("visible=true")).to_have_count(0)


def test_the_schedule_plays_step_by_step(open_chapter):
    page = open_chapter("batches")
    ahead = page.locator("#schedule .cell.ahead")
    expect(ahead).to_have_count(0)
    page.locator("#schedule .playhead").fill("0")
    cells = page.locator("#schedule .cells .cell").count()
    expect(ahead).to_have_count(cells)
    page.locator("#schedule .play").click()
    expect(ahead).not_to_have_count(cells)


def test_a_tab_stands_in_the_address(visit):
    page = visit()
    page.get_by_role("tab", name="Train").click()
    expect(page).to_have_url(re.compile("tab=train"))
    page.get_by_role("tab", name="Race").click()
    expect(page).not_to_have_url(re.compile("tab="))


def test_a_phone_shows_every_chapter_without_scrolling_sideways(open_chapter):
    page = open_chapter("one-token")
    page.set_viewport_size({"width": 390, "height": 844})
    for chapter in CHAPTERS:
        expect(heading(page)).to_contain_text(chapter["title"])
        expect(page.locator(BESIDE[chapter["element"]["kind"]]).first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, chapter["id"]
        page.locator("#next").click(force=True)
