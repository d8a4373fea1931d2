"""The layer lens in a real browser: in the Mask tab and in its chapter."""

import re
from urllib.parse import urlsplit

import pytest
from on_stage import says
from playwright.sync_api import Page, expect
from records import recorded

from mars_demo.ui.tabs import learn

CHAPTER = next(chapter for chapter in learn.CHAPTERS if chapter["element"]["kind"] == "lens")


def cell(page: Page, layer: int, slot: int, of: str = "#lens"):
    return page.locator(f'{of} .cell[data-layer="{layer}"][data-slot="{slot - 1}"]')


def sentence(page: Page, of: str = "#lens"):
    return page.locator(f"{of} .sentence")


def look_inside(page: Page) -> None:
    page.locator("#look-inside input").check()
    expect(page.locator("#lens .cell").first).to_be_visible()


@pytest.fixture
def sent_to_mask(visit):
    """Open the Mask tab with a forward from the stage."""

    def open_it(lane: str, number: int) -> Page:
        page = visit(f"run=bus&lane={lane}&pass={number}")
        expect(page.locator(f'#stage .lane.focused[data-lane="{lane}"] .pass:not(.future)')).to_have_count(
            number
        )
        page.locator('[data-do="mask"]').click()
        expect(page.locator("#grid .matrix [data-cells]").first).to_be_visible()
        return page

    return open_it


@pytest.mark.parametrize(
    "lane", ["mars", *(pytest.param(lane, marks=pytest.mark.full) for lane in ("ar", "lossless"))]
)
def test_a_forward_of_a_race_is_shown_layer_by_layer(sent_to_mask, lane):
    """Expect a column per slot of the record, headed by its token; the output row equals the record."""
    page, step = sent_to_mask(lane, 3), recorded("bus", lane).passes[2]
    expect(page.locator("#lens .lens")).to_be_hidden()
    look_inside(page)
    labels = [slot.text.replace(" ", "␣") for slot in step.slots]
    expect(page.locator("#lens thead tr").nth(2).locator(".head")).to_have_text(labels)
    ticks = [f"{i}{' ✓' if i <= step.accepted else ''}" for i in range(1, len(labels) + 1)]
    expect(page.locator("#lens thead tr").first.locator(".head")).to_have_text(ticks)
    drafts = step.verified or 0
    places = ["token", *["draft"] * drafts, *["mask"] * (len(labels) - 1 - drafts)]
    expect(page.locator("#lens thead tr").nth(1).locator(".head")).to_have_text(places)
    expect(page.locator("#lens tbody tr th")).to_have_text([says(layer) for layer in (4, 3, 2, 1, 0)])
    output = page.locator("#lens tbody tr").first
    expect(output.locator(".said")).to_have_text(labels)
    shares = [f"{int(100 * round(slot.score, 4) + 1e-9)}%" for slot in step.slots]
    expect(output.locator(".share")).to_have_text(shares)
    expect(page.locator("#lens .settles")).to_have_count(len(labels))
    settled = page.locator("#lens thead tr").nth(3).locator(".head").all_inner_texts()
    marks = page.locator("#lens .settles").evaluate_all("cells => cells.map((cell) => cell.dataset.layer)")
    assert sorted(marks) == sorted(settled) and set(settled) <= set("01234")


@pytest.mark.full
def test_pointer_and_keyboard_describe_a_cell_in_words(sent_to_mask):
    page = sent_to_mask("mars", 2)
    look_inside(page)
    cell(page, 4, 1).hover()
    expect(sentence(page)).to_have_text(says(4, 1, "␣"))
    cell(page, 1, 2).click()
    # The top token of the cell, and probability and rank of the final token.
    expect(sentence(page)).to_have_text(re.compile(r"1\b.*2\b.*“MASK”.*“5”.*\b0\.\d+%.* \d+"))
    page.keyboard.press("ArrowDown")
    expect(cell(page, 0, 2)).to_be_focused()
    expect(sentence(page)).to_have_text(says(0, 2))
    page.keyboard.press("ArrowDown")  # there is no cell below
    expect(cell(page, 0, 2)).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    expect(cell(page, 1, 3)).to_be_focused()
    expect(page.locator("#lens .cell[tabindex='0']")).to_have_count(1)


@pytest.mark.full
def test_the_lens_is_part_of_the_url_and_follows_the_controls(sent_to_mask, visit):
    page = sent_to_mask("mars", 2)
    look_inside(page)
    expect(page).to_have_url(re.compile("mask_lens=true"))
    again = visit(urlsplit(page.url).query)
    expect(again.locator("#lens .cell").first).to_be_visible()
    again.locator("#block-size input[type=range]").fill("2")
    expect(again.locator("#lens tbody tr").first.locator(".cell")).to_have_count(3)
    again.locator("#kind input").click()
    again.get_by_role("option", name="Lossless").first.click()
    expect(again.locator("#lens thead tr").nth(2).locator(".head").nth(0)).to_be_visible()
    again.locator("#kind input").click()
    again.get_by_role("option", name="AR training").click()
    expect(again.locator("#lens .scroll")).to_be_hidden()  # the lens shows decoding forwards
    expect(sentence(again)).not_to_be_empty()
    again.locator("#look-inside input").uncheck()
    expect(again.locator("#lens .lens")).to_be_hidden()


@pytest.mark.full
def test_the_chapter_shows_another_forward_with_its_slider(visit):
    page, run = visit(f"tab=learn&chapter={CHAPTER['id']}"), recorded("bus", "mars")
    assert CHAPTER["element"]["forwards"] == len(run.passes)
    heads = page.locator("#lesson-lens thead tr").nth(2).locator(".head")
    for number in (CHAPTER["element"]["forward"], 5, len(run.passes)):
        page.locator("#lesson-forward input[type=range]").fill(str(number))
        expect(page.locator("#lesson-lens .caption")).to_have_text(says(number))
        slots = run.passes[number - 1].slots
        expect(heads).to_have_count(len(slots))
        texts = [slot.text.replace(" ", "␣") or "<|end|>" for slot in slots]
        expect(heads).to_have_text(texts)
    cell(page, 2, 1, "#lesson-lens").click()
    page.keyboard.press("ArrowRight")  # moves to the next cell, not to another chapter
    expect(cell(page, 2, 2, "#lesson-lens")).to_be_focused()
    expect(page.locator("#chapter h3")).to_contain_text(CHAPTER["title"])
