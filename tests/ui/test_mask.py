"""The Mask tab in a real browser."""

import itertools
import re
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect


@pytest.fixture
def open_tab(visit):
    def open_it(**options) -> Page:
        page = visit(**options)
        page.get_by_role("tab", name="Mask").click()
        expect(page.locator(".matrix [data-cells]").first).to_be_attached()
        expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()  # it comes last
        return page

    return open_it


def set_slider(page: Page, name: str, value: int) -> None:
    page.locator(f"#{name} input[type=range]").fill(str(value))


def cell(page: Page, row: int, column: int) -> None:
    """Point at a cell, as a mouse does."""
    unit = "document.querySelector('.matrix').getScreenCTM()"
    matrix = page.evaluate(f"(m => ({{a: m.a, d: m.d, e: m.e, f: m.f}}))({unit})")
    page.mouse.move(
        matrix["e"] + matrix["a"] * 10 * (column + 0.5), matrix["f"] + matrix["d"] * 10 * (row + 0.5)
    )


def told(page: Page):
    return page.locator("#grid .told")


def test_a_cell_says_who_sees_whom_and_why(open_tab):
    page = open_tab()
    clean = int(re.match(r"\d+", page.locator("#grid .caption").inner_text())[0])
    page.locator(".matrix").scroll_into_view_if_needed()
    cell(page, 3, 1)
    expect(told(page)).to_contain_text("it comes before it")
    cell(page, 1, 3)
    expect(told(page)).to_contain_text("does not see")
    cell(page, clean, 0)
    expect(told(page)).to_contain_text(
        re.compile(r"Noisy position 8 \(block 1\) sees clean .+ it comes before block 1")
    )
    expect(told(page)).to_contain_text("2 tokens behind the last real one it sees")
    cell(page, clean, clean + 1)
    expect(told(page)).to_contain_text("it comes later in the block")


def test_the_keyboard_walks_the_picture(open_tab):
    page = open_tab()
    page.locator(".plot").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(told(page)).to_contain_text("does not see")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".reads")).to_contain_text("reads:")
    expect(page.locator(".reads .unseen").first).to_be_attached()


@pytest.mark.parametrize(
    "title",
    [
        "AR training",
        "Block diffusion training",
        "Window of a forward",
        "Lossless: drafts and groups of masks",
        "Speculative decoding with MARS",
    ],
)
def test_every_picture_can_be_chosen(open_tab, title):
    page = open_tab()
    before = page.locator("#grid .caption").inner_text()
    page.locator("#kind input").click()
    page.get_by_role("option", name=title).click()
    expect(page.locator("#grid .caption")).not_to_have_text(before)
    expect(page.locator(".matrix [data-cells]").first).to_be_attached()


def test_a_change_at_256_positions_is_one_answer_outside_the_queue_and_one_redraw(open_tab):
    """What makes the picture follow a slider at once, told without a clock."""
    page = open_tab()
    page.locator("#sentence textarea").fill("one two three four five six seven eight nine ten " * 16)
    page.locator("#sentence textarea").blur()
    set_slider(page, "length", 128)
    expect(page.locator("#grid .caption")).to_contain_text("128 clean")
    asked = []
    page.on("request", lambda request: asked.append(request.url.split("/gradio_api/")[-1].split("?")[0]))
    redraws = page.evaluate(
        """async () => {
          const slider = document.querySelector("#block-size input[type=range]");
          const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
          let redraws = 0;
          let drawn;
          new MutationObserver((changes) => {
            redraws += changes.filter((change) => change.removedNodes.length > 100).length; // all at once
            drawn();
          }).observe(document.querySelector(".matrix"), { childList: true });
          for (const value of [5, 9, 3, 12, 7]) {
            const next = new Promise((resolve) => (drawn = resolve));
            set.call(slider, value);
            slider.dispatchEvent(new Event("input", { bubbles: true }));
            await next;
          }
          return redraws;
        }"""
    )
    assert asked == 5 * ["run/predict"]  # no queue, which a slider would have to wait for
    assert redraws == 5
    assert page.locator(".matrix *").count() < 1000  # a shape per run of cells, not for each of the 65,536


def test_attention_is_drawn_and_told(open_tab):
    page = open_tab()
    page.locator("#attention input").check()
    expect(page.locator(".matrix [fill-opacity]").first).to_be_attached()
    page.locator(".matrix").scroll_into_view_if_needed()
    cell(page, 3, 1)
    expect(told(page)).to_contain_text(re.compile(r"Attention 0\.\d+"))


def test_a_forward_of_the_stage_is_shown_here(visit):
    page = visit("run=bus&lane=mars&pass=3")
    expect(page.locator("#stage .caption")).to_contain_text("Forward 3:")
    page.locator(".to-mask").click()
    expect(page.locator("#grid .caption")).to_contain_text("Forward 3 of")
    expect(page.locator("#grid .region")).to_contain_text(["in the cache", "real tokens", "masks"])


def test_the_picture_can_be_taken_along(open_tab):
    page = open_tab()
    with page.expect_download() as download:
        page.locator("#grid [data-do=svg]").click()
    picture = ElementTree.fromstring(download.value.path().read_text("utf-8"))
    texts = ["".join(node.itertext()) for node in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "clean never sees noisy" in texts
    with page.expect_download() as download:
        page.locator("#grid [data-do=png]").click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


def test_hostile_text_is_drawn_as_it_is(open_tab):
    page = open_tab()
    page.locator("#sentence textarea").fill("<img src=x onerror=alert(1)> ${alert(1)} {{1+1}}")
    page.locator("#sentence textarea").blur()
    expect(page.locator(".matrix text").first).to_have_text("<")
    assert page.locator("#grid img").count() == 0


def test_a_sentence_too_short_is_told_and_the_picture_stays(open_tab):
    page = open_tab()
    page.locator("#sentence textarea").fill("a")
    expect(told(page)).to_have_text("The sentence is too short for a picture; write at least four tokens.")
    expect(page.locator(".matrix text").first).to_have_text("Which")


def test_a_phone_shows_the_picture_without_scrolling_sideways(open_tab):
    page = open_tab()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("Window of a forward", ["in the cache", "real tokens", "masks"]),
        ("Lossless, linear", ["in the cache", "last token and drafts", "groups of masks"]),
        ("Speculative decoding with MARS", ["in the cache", "last token and drafts", "groups of masks"]),
    ],
)
def test_names_of_regions_are_read_apart_on_any_screen(open_tab, width, title, names):
    page = open_tab()
    page.set_viewport_size({"width": width, "height": 850})
    page.locator("#kind input").click()
    page.get_by_role("option", name=title).click()
    regions = page.locator("#grid .region")
    expect(regions).to_have_text(names)
    boxes = [region.bounding_box() for region in regions.all()]
    assert all(box["height"] > 14 and box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
    for one, other in itertools.combinations(boxes, 2):
        beside = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
        middles = [box["y"] + box["height"] / 2 for box in (one, other)]
        assert beside or abs(middles[0] - middles[1]) > 14
