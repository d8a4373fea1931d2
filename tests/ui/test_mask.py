"""The Mask tab in a real browser."""

import itertools
import json
import re
from urllib.parse import parse_qsl, urlsplit
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect

from mars_demo.assets import ASSETS
from mars_demo.decoding.trace import read_runs
from mars_demo.views import recordings


@pytest.fixture
def open_tab(visit):
    def open_it(query: str = "", **options) -> Page:
        page = visit(f"tab=mask&{query}", **options)
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


def sentence(page: Page):
    return page.locator("#grid .sentence")


def test_a_cell_says_who_sees_whom_and_why(open_tab):
    page = open_tab()
    clean = int(re.match(r"\d+", page.locator("#grid .caption").inner_text())[0])
    page.locator(".matrix").scroll_into_view_if_needed()
    cell(page, 3, 1)
    expect(sentence(page)).to_contain_text("it comes earlier")
    cell(page, 1, 3)
    expect(sentence(page)).to_contain_text("does not see")
    cell(page, clean, 0)
    expect(sentence(page)).to_contain_text(
        re.compile(r"Noisy position 8 \(block 1\) sees clean .+ it comes before block 1")
    )
    expect(sentence(page)).to_contain_text("2 tokens after the last real one it sees")
    cell(page, clean, clean + 1)
    expect(sentence(page)).to_contain_text("it comes later in the block")


def test_the_keyboard_walks_the_picture(open_tab):
    page = open_tab()
    page.locator(".plot").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(sentence(page)).to_contain_text("does not see")
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
    """What makes the picture follow a slider at once, tested without a clock."""
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


def test_attention_is_drawn_and_put_in_words(open_tab):
    page = open_tab()
    page.locator("#attention input").check()
    expect(page.locator(".matrix [fill-opacity]").first).to_be_attached()
    page.locator(".matrix").scroll_into_view_if_needed()
    cell(page, 3, 1)
    expect(sentence(page)).to_contain_text(re.compile(r"Attention 0\.\d+"))


def value(page: Page, name: str) -> int:
    return int(page.locator(f"#{name} input[type=number]").input_value())


def maximum(page: Page, name: str) -> str:
    return page.locator(f"#{name} input[type=range]").get_attribute("max")


def test_sliders_go_as_far_as_the_model_and_the_sentence_and_act_only_where_they_matter(open_tab):
    page = open_tab()
    config = json.loads((ASSETS / "mars-tiny" / "config.json").read_text())
    most = {"layer": config["num_hidden_layers"], "head": config["num_attention_heads"]}
    for name, number in most.items():
        expect(page.locator(f"#{name} input[type=range]")).to_be_disabled()
        expect(page.locator(f"#{name} input[type=range]")).to_have_attribute("max", str(number))
    page.locator("#attention input").check()
    for name in most:
        expect(page.locator(f"#{name} input[type=range]")).to_be_enabled()
    set_slider(page, "layer", most["layer"])
    set_slider(page, "head", most["head"])
    expect(page.locator(".matrix [fill-opacity]").first).to_be_attached()
    expect(sentence(page)).to_have_text("Point at a cell, or move with the arrow keys.")  # no complaint
    page.locator("#attention input").uncheck()
    for name in most:
        expect(page.locator(f"#{name} input[type=range]")).to_be_disabled()
    tokens = int(re.match(r"\d+", page.locator("#grid .caption").inner_text())[0])
    prompt = page.locator("#prompt-length input[type=range]")
    expect(prompt).to_have_attribute("max", str(tokens - 2))
    set_slider(page, "prompt-length", tokens - 2)
    expect(page.locator("#grid .caption")).to_contain_text("R = 2 of them")
    set_slider(page, "length", 6)
    expect(prompt).to_have_attribute("max", "4")
    expect(prompt).to_have_value("4")
    expect(page.locator("#grid .caption")).to_contain_text("6 clean and 1 noisy")
    set_slider(page, "length", 20)
    page.locator("#sentence textarea").fill("one two three four five six seven eight nine ten " * 2)
    expect(prompt).to_have_attribute("max", "18")
    expect(page.locator("#new-tokens input[type=range]")).to_be_disabled()
    page.locator("#kind input").click()
    page.get_by_role("option", name="Window of a forward").click()
    expect(prompt).to_be_disabled()
    expect(page.locator("#new-tokens input[type=range]")).to_be_enabled()


@pytest.mark.parametrize("lane", ["ar", "mars", "lossless"])
def test_a_forward_of_the_stage_sets_the_controls_and_the_address(visit, lane):
    runs = read_runs(recordings.recording("bus").splitlines()[1:])
    run = next(run for run in runs if run.settings.mode == lane)
    before, step = run.passes[:2], run.passes[2]
    drafts = step.drafts or 0
    text = run.settings.prompt_tokens + sum(one.accepted for one in before)
    new = drafts if lane == "lossless" else before[-1].accepted
    groups = step.groups or 1
    masks = (step.positions - (drafts + 1 if lane == "lossless" else new)) // groups
    kind = "Window of a forward"
    if lane == "lossless":
        kind = "Lossless, linear" if groups == 1 else "Lossless: drafts and groups of masks"

    def is_drawn(page: Page) -> None:
        expect(page.locator("#kind input")).to_have_value(kind)
        controls = {"length": text + drafts, "prompt-length": run.settings.prompt_tokens}
        for name, number in (controls | {"new-tokens": new, "block-size": masks}).items():
            expect(page.locator(f"#{name} input[type=number]")).to_have_value(str(number))
        columns = text - (1 if lane == "lossless" else new) + step.positions
        size = f"{step.positions} rows, {columns} columns"
        expect(page.locator("#grid .matrix")).to_have_attribute("aria-label", size)

    page = visit(f"run=bus&lane={lane}&pass=3")
    expect(page.locator("#stage .caption")).to_contain_text("Forward 3:")
    page.get_by_role("button", name="Show this forward's mask").locator("visible=true").click()
    expect(page.locator("#grid .caption")).to_contain_text("Forward 3 of")
    is_drawn(page)
    expect(page.locator("#grid .region").first).to_contain_text("in the cache")
    expect(page).to_have_url(re.compile(f"mask_block_size={masks}&"))
    expect(page.locator("#grid .caption")).to_contain_text("Forward 3 of")  # nothing has drawn over it
    query = dict(parse_qsl(urlsplit(page.url).query))
    assert query["tab"] == "mask"
    assert query["mask_sentence"] == page.locator("#sentence textarea").input_value()
    again = visit(urlsplit(page.url).query)
    expect(again.get_by_role("tab", name="Mask")).to_have_attribute("aria-selected", "true")
    is_drawn(again)
    again.locator("#length input[type=number]").fill(str(text + drafts - 1))
    again.locator("#length input[type=number]").press("Enter")
    expect(again).to_have_url(re.compile(f"mask_length={text + drafts - 1}&"))


def test_the_picture_can_be_exported(open_tab):
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


def test_a_sentence_too_short_gets_a_sentence_and_the_picture_stays(open_tab):
    page = open_tab()
    page.locator("#sentence textarea").fill("a")
    expect(sentence(page)).to_have_text(
        "The sentence is too short for a picture; write at least four tokens."
    )
    expect(page.locator(".matrix text").first).to_have_text("Which")


def test_a_phone_shows_the_picture_without_scrolling_sideways(open_tab):
    page = open_tab()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


# At one moment, however often the picture is drawn anew meanwhile.
BOXES = """() => ["#grid [data-cells]", "#grid .region"].map((selector) =>
  [...document.querySelectorAll(selector)].map((node) => node.getBoundingClientRect().toJSON()))"""
SCREENS = {"desk": ("", 1440, 850), "phone": ("__theme=dark", 390, 844), "talk": ("view=talk", 1920, 1080)}
BANDS = ["in the cache", "real tokens", "masks"]
GROUPS = ["in the cache", "last token and drafts", "groups of masks"]
STREAMS = [
    "clean sees clean, causally",
    "clean never sees noisy",
    "noisy sees the clean tokens before its block",
    "noisy sees its own block, causally",
]


@pytest.mark.parametrize("screen", SCREENS)
def test_names_of_regions_are_outside_the_cells_and_read_apart_on_any_screen(open_tab, screen):
    query, width, height = SCREENS[screen]
    page = open_tab(query)
    page.set_viewport_size({"width": width, "height": height})
    for title, names in (
        ("MARS training", STREAMS),
        ("AR training", STREAMS[:1]),
        ("Window of a forward", BANDS),
        ("Lossless, linear", GROUPS),
        ("Speculative decoding with MARS", GROUPS),
    ):
        page.locator("#kind input").click()
        page.get_by_role("option", name=title).click()
        for length in (20, 5):  # with few tokens every cell is large
            set_slider(page, "length", length)
            regions = page.locator("#grid .region")
            expect(regions).to_have_text(names)
            cells, boxes = page.evaluate(BOXES)
            bottom = max(box["y"] + box["height"] for box in cells)
            for box in boxes:
                assert box["y"] >= bottom - 2, (title, length)
                assert box["height"] > 14 and box["x"] >= 0 and box["x"] + box["width"] <= width
            for one, other in itertools.combinations(boxes, 2):
                beside = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
                middles = [box["y"] + box["height"] / 2 for box in (one, other)]
                assert beside or abs(middles[0] - middles[1]) > 14
