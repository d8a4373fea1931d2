"""The Mask tab in a real browser."""

import itertools
import re
from urllib.parse import parse_qsl, urlsplit

import pytest
from acts import choose, fits, is_open, set_slider
from playwright.sync_api import Page, expect
from records import recorded

from mars_demo.ui.mask_settings import SENTENCE
from mars_demo.ui.masks import KINDS, Sentence, draw_mask


@pytest.fixture
def open_tab(visit):
    def open_it(query: str = "", **options) -> Page:
        page = visit(f"tab=mask&{query}", **options)
        expect(page.locator(".matrix [data-cells]").first).to_be_attached()
        return page

    return open_it


@pytest.fixture(scope="module")
def tokens(tokenizer) -> int:
    """Return the number of tokens of the initial sentence of the tab."""
    return len(tokenizer(SENTENCE, add_special_tokens=False)["input_ids"])


def choose_kind(page: Page, name: str) -> None:
    choose(page, "kind", KINDS[name].title)


def has_size(page: Page, rows: int, columns: int) -> None:
    label = re.compile(rf"^{rows}\D+{columns}\D*$")
    expect(page.locator("#grid .matrix")).to_have_attribute("aria-label", label)


def point_at(page: Page, row: int, column: int) -> None:
    """Point at a cell with the mouse."""
    page.locator(".matrix").scroll_into_view_if_needed()
    unit = "document.querySelector('.matrix').getScreenCTM()"
    matrix = page.evaluate(f"(m => ({{a: m.a, d: m.d, e: m.e, f: m.f}}))({unit})")
    page.mouse.move(
        matrix["e"] + matrix["a"] * 10 * (column + 0.5), matrix["f"] + matrix["d"] * 10 * (row + 0.5)
    )


def check_cell(page: Page, visible: bool, row: int, column: int) -> None:
    """Check the cell under the pointer, and whether its row sees its column."""
    here = page.locator("#grid .here")
    expect(here).to_have_attribute("data-seen", f"{visible}".lower())
    for name, value in (("x", 10 * column), ("y", 10 * row)):
        expect(here).to_have_attribute(name, f"{value}")


def sentence(page: Page):
    return page.locator("#grid .sentence")


def write(page: Page, text: str) -> None:
    page.locator("#sentence textarea").fill(text)
    page.locator("#sentence textarea").blur()


def test_a_picture_follows_its_controls_and_describes_its_cells(open_tab, tokenizer, tokens):
    page = open_tab()
    prompt, block = 8, 4
    noisy = -(-(tokens - prompt) // block) * block
    size = re.compile(r"^(\d+)\D+(\d+)\D*$")
    rows = int(size.match(page.locator("#grid .matrix").get_attribute("aria-label"))[1])
    assert tokens < rows <= tokens + noisy
    for cell, visible in {
        (3, 1): True,
        (1, 3): False,
        (tokens, 0): True,
        (tokens, tokens + 1): False,
        (0, tokens): False,
    }.items():
        point_at(page, *cell)
        check_cell(page, visible, *cell)
    point_at(page, tokens, 0)
    expect(sentence(page)).to_contain_text(re.compile(rf"\b{prompt}\b.*\bblock 1\b.*\b2 tokens\b"))

    page.locator(".plot").focus()  # the keys continue from the cell
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    check_cell(page, True, tokens - 1, 1)

    set_slider(page, "length", 6)
    has_size(page, 6 + 1, 6 + 1)
    ids = tokenizer(SENTENCE, add_special_tokens=False)["input_ids"][:6]
    shortened = Sentence(ids, tokenizer.mask_token_id, str, prompt=4, new=2, block_size=block)
    for kind in (*KINDS, "linear"):
        choose_kind(page, kind)
        picture = draw_mask(kind, shortened)
        has_size(page, len(picture.rows), len(picture.columns))
        named = [region for region in picture.regions if not region.is_empty]
        expect(page.locator("#grid .region")).to_have_count(len(named))

    text, first = sentence(page).inner_text(), page.locator(".matrix text").first
    label = first.text_content()
    write(page, "a")  # too short for a picture
    expect(sentence(page)).not_to_have_text(text)
    expect(first).to_have_text(label)
    choose_kind(page, "ar")
    write(page, "<img src=x onerror=alert(1)> ${alert(1)} {{1+1}}")
    expect(first).to_have_text("<")
    expect(page.locator("#grid img")).to_have_count(0)


@pytest.mark.full
def test_sliders_are_limited_by_the_sentence_and_enabled_where_used(open_tab, tokens):
    page = open_tab()

    def slider(name: str):
        return page.locator(f"#{name} input[type=range]")

    set_slider(page, "prompt-length", tokens - 2)
    expect(page.locator("#grid .caption")).to_contain_text("R = 2 ")
    set_slider(page, "length", 6)
    expect(slider("prompt-length")).to_have_attribute("max", "4")
    expect(slider("prompt-length")).to_have_value("4")
    expect(slider("new-tokens")).to_be_disabled()
    choose_kind(page, "window")
    expect(slider("prompt-length")).to_be_disabled()
    expect(slider("new-tokens")).to_be_enabled()


@pytest.mark.parametrize(
    "lane", [pytest.param(lane, marks=pytest.mark.full) for lane in ("lossless", "ar", "mars")]
)
def test_a_forward_of_the_stage_sets_the_controls_and_the_url(visit, lane):
    run = recorded("bus", lane)
    before, step = run.passes[:2], run.passes[2]
    drafts = step.drafts or 0
    text = run.settings.prompt_tokens + sum(one.accepted for one in before)
    new = drafts if lane == "lossless" else before[-1].accepted
    groups = step.groups or 1
    masks = (step.positions - (drafts + 1 if lane == "lossless" else new)) // groups
    kind = "window"
    if lane == "lossless":
        kind = "linear" if groups == 1 else "verification"

    def is_drawn(page: Page) -> None:
        expect(page.locator("#kind input")).to_have_value(KINDS[kind].title)
        controls = {"length": text + drafts, "prompt-length": run.settings.prompt_tokens}
        for name, number in (controls | {"new-tokens": new, "block-size": masks}).items():
            expect(page.locator(f"#{name} input[type=number]")).to_have_value(str(number))
        has_size(page, step.positions, text - (1 if lane == "lossless" else new) + step.positions)

    page = visit(f"run=bus&lane={lane}&pass=3")
    expect(page.locator("#stage .caption")).to_contain_text("3")
    page.locator("#stage [data-do=mask] >> visible=true").click()
    is_drawn(page)
    is_open(page, "Mask")
    expect(page).to_have_url(re.compile(f"mask_block_size={masks}&"))
    expect(page.locator("#grid .caption")).to_contain_text(run.settings.prompt)  # not replaced later
    query = dict(parse_qsl(urlsplit(page.url).query))
    assert query["tab"] == "mask"
    expect(page.locator("#sentence textarea")).to_have_value(query["mask_sentence"])
    page.goto(page.url)
    is_open(page, "Mask")
    is_drawn(page)
    page.locator("#length input[type=number]").fill(str(text + drafts - 1))
    page.locator("#length input[type=number]").press("Enter")
    expect(page).to_have_url(re.compile(f"mask_length={text + drafts - 1}&"))


# Both lists at the same moment, as the picture may be redrawn in between.
BOXES = """() => ["#grid [data-cells]", "#grid .region"].map((selector) =>
  [...document.querySelectorAll(selector)].map((node) => node.getBoundingClientRect().toJSON()))"""
REGIONS = {"mars": 4, "ar": 1, "window": 3, "linear": 3, "verification": 3}


@pytest.mark.full
def test_names_of_regions_overlap_neither_cells_nor_each_other_on_a_phone(open_tab):
    page, width = open_tab(), 390
    page.set_viewport_size({"width": width, "height": 844})
    fits(page)
    for kind, count in REGIONS.items():
        choose_kind(page, kind)
        for length in (20, 5):  # with few tokens, cells are large
            set_slider(page, "length", length)
            expect(page.locator("#grid .region")).to_have_count(count)
            cells, boxes = page.evaluate(BOXES)
            bottom = max(box["y"] + box["height"] for box in cells)
            for box in boxes:
                assert box["y"] >= bottom - 2, (kind, length)
                assert box["height"] > 14 and box["x"] >= 0 and box["x"] + box["width"] <= width
            for one, other in itertools.combinations(boxes, 2):
                beside = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
                middles = [box["y"] + box["height"] / 2 for box in (one, other)]
                assert beside or abs(middles[0] - middles[1]) > 14
