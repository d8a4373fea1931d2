"""The stage alone in a real browser, on recorded and made-up runs: no model is loaded anywhere here."""

import json
import re
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree

import gradio as gr
import pytest
from on_stage import PAUSED, PLAYING, caption, give, lane, put, says, shared_stage, shown, token
from playwright.sync_api import Locator, Page, expect
from records import WORDS, file_of, race, run, slowed

from mars_demo.decoding.trace import Run, read_runs
from mars_demo.ui.components.stage import Stage
from mars_demo.ui.page import App
from mars_demo.ui.racing import record
from mars_demo.views import recordings

SVG = "{http://www.w3.org/2000/svg}"
# Leaves `WORDS` at its fourth word.
OTHER_WORDS = "the quick brown cat sleeps and snores".split()


@pytest.fixture
def stage(module_page, stage_url):
    """The stage that the tests of this module share, with a made-up race on it."""
    for page in shared_stage(module_page, stage_url):
        put(page, race())
        yield page


@pytest.fixture
def look(visit, stage_url):
    """Open a stage of its own, by default with a made-up race on it."""

    def open_stage(query: str = "", file: str | None = race(), **options) -> Page:
        page = visit(query, stage_url, **options)
        expect(page.locator(".token").first).to_be_attached()  # a recorded run
        if file is not None:
            put(page, file)
        return page

    return open_stage


@pytest.fixture
def serve():
    """Serve pages of their own, until the test has ended."""
    served = []

    def start(demo: App) -> str:
        served.append(demo)
        return demo.launch(prevent_thread_lock=True, quiet=True)[1]

    yield start
    for demo in served:
        demo.close()


def saved(page: Page, kind: str) -> bytes:
    """Return what a button of the shelf downloads."""
    with page.expect_download() as download:
        page.locator(f'[data-do="{kind}"]').click()
    return download.value.path().read_bytes()


# ------------------------------------------------------------------------------- recorded runs


def test_a_recorded_run_is_there_when_the_page_opens(stage, stage_url):
    stage.goto(stage_url)
    first = recordings.index()[0]
    expect(stage.locator(".note")).to_contain_text(first["title"])
    expect(stage.locator(".prompt")).to_have_text(first["prompt"])
    expect(stage.locator(".verdict")).to_have_text(re.compile(r"\d tokens in \d+ forwards.*\d×"))


def test_a_link_opens_the_same_recorded_run_at_the_same_forward(stage):
    stage.locator(".recordings").select_option(recordings.index()[1]["id"])
    expect(stage.locator(".note")).to_contain_text(recordings.index()[1]["title"])
    stage.locator(".note").click()
    stage.keyboard.press("Home")
    for _ in range(3):
        stage.keyboard.press("ArrowRight")
    expect(stage).to_have_url(re.compile(r"(?=.*run=)(?=.*pass=3)"))
    expect(shown(stage, "mars")).to_have_count(3)
    words = caption(stage).inner_text()
    stage.reload()
    expect(caption(stage)).to_have_text(words)
    expect(shown(stage, "mars")).to_have_count(3)


# ------------------------------------------------------------------------------ what is said of a race


def test_the_stage_names_the_model_the_device_and_the_precision(stage):
    expect(stage.locator(".machine")).to_have_text(says("toy", "CPU", "float32"))
    put(stage, race().replace('"cpu"', '"cuda", "gpu": "NVIDIA <b>H200"').replace("float32", "bfloat16"))
    expect(stage.locator(".machine")).to_have_text(says("toy", "NVIDIA <b>H200", "bfloat16"))


def test_the_same_answer_is_said_with_the_figures_of_the_race(stage):
    expect(stage.locator(".verdict")).to_have_text(says("MARS", 10, 4, "2.5", "2.1×", "same answer"))
    expect(stage.locator(".verdict")).to_have_attribute("role", "status")
    expect(stage.locator(".differs")).to_have_count(0)
    expect(stage.locator(".difference")).to_be_hidden()
    expect(stage.locator(".share .part")).to_have_text(["25% (1)"] * 4)  # of the forwards: 1 to 4 tokens


def test_a_single_run_is_not_compared(stage):
    put(stage, file_of(run("mars", [1, 3, 2, 4], [0.95] * 4)))
    expect(stage.locator(".lane")).to_have_count(1)
    expect(stage.locator(".verdict")).to_have_text(says("MARS", 10, 4, "2.5"))
    expect(stage.locator(".verdict")).not_to_contain_text("×")


def test_the_first_difference_is_marked_and_its_candidates_stand_side_by_side(stage):
    """Token 4: AR's fourth forward, and the second slot of the second forward of MARS."""
    put(stage, file_of(run("ar", [1] * 10), run("mars", [2, 3, 3], [0.9] * 3, words=OTHER_WORDS)))
    expect(stage.locator(".verdict")).to_have_text(says("MARS", 8, 3, "2.7", "2.2×", "token 4"))
    expect(lane(stage, "ar").locator(".differs")).to_have_text([" fox"])
    expect(lane(stage, "mars").locator(".differs")).to_have_text([" cat"])
    expect(stage.locator(".difference-where")).to_have_text(says(4))
    expect(stage.locator(".difference-before")).to_have_text(" the quick brown")
    sides = stage.locator(".difference-sides > div")
    expect(sides.nth(0)).to_have_text(says(4, 1, "␣fox", "99.00%"))
    expect(sides.nth(1)).to_have_text(says(2, "␣cat", "89.00%"))
    expect(sides.nth(0).locator("li .candidate")).to_have_text(["␣fox", "␣or"])
    lane(stage, "ar").locator(".name").click()  # it is the same from both sides
    expect(sides.nth(1)).to_have_text(says(2, "␣cat"))


def test_a_near_tie_that_went_the_other_way_is_said(stage):
    """Only where the mode promises the answer of one token at a time, and the two were close there."""

    def rounded(made, best, second, shares):
        made.settings = replace(made.settings, dtype="bfloat16")
        at = 0
        for number, step in enumerate(made.passes):
            slots = list(step.slots)
            if at <= 3 < at + step.accepted:
                slots[3 - at] = replace(slots[3 - at], top=((best, shares[0]), (second, shares[1])))
                made.passes[number] = replace(step, slots=tuple(slots))
            at += step.accepted
        return made

    for mode, shares in (("lossless", (0.41, 0.38)), ("lossless", (0.81, 0.11)), ("mars", (0.41, 0.38))):
        ar = rounded(run("ar", [1] * 10), " fox", " cat", shares)
        taus = None if mode == "lossless" else [0.9] * 3
        other = rounded(run(mode, [2, 3, 3], taus, words=OTHER_WORDS), " cat", " fox", shares)
        put(stage, file_of(ar, other))
        expect(stage.locator(".verdict")).to_have_text(says("token 4"))
        if (mode, shares) == ("lossless", (0.41, 0.38)):
            expect(stage.locator(".verdict")).to_have_text(says("41.00%", "38.00%", "bfloat16"))
        else:
            expect(stage.locator(".verdict")).not_to_contain_text("%")


# ------------------------------------------------------------------------ a token and its forward


def test_a_token_that_is_pointed_at_lights_its_whole_forward_until_a_click_pins_it(stage):
    card, third = stage.locator(".card"), token(stage, "mars", 2)
    third.hover()
    expect(card.locator(".where")).to_have_text(says(2, "␣brown", "89.00%"))
    expect(card.locator("li")).to_have_count(2)
    expect(lane(stage, "mars").locator(".pass.lit")).to_have_text(" quick brown fox")
    expect(lane(stage, "mars").locator("rect.lit")).to_have_attribute("data-pass", "1")
    expect(stage.locator(".heat g.lit")).to_have_attribute("data-pass", "1")
    expect(caption(stage)).to_have_text(says(2, 3, 4, "0.95"))  # forward 2: 3 of 4 slots, τ
    expect(stage.locator(".slot.inspected .candidate")).to_have_text("␣brown")
    stage.locator(".verdict").hover()
    expect(card).to_be_hidden()
    expect(stage.locator(".lit")).to_have_count(0)
    third.click()
    stage.locator(".verdict").hover()
    expect(stage.locator(".card.pinned .where")).to_have_text(says(2, "␣brown"))
    expect(caption(stage)).to_have_text(says(2, 3, 4))
    third.click()
    stage.locator(".verdict").hover()
    expect(card).to_be_hidden()


def test_the_keyboard_reads_and_pins_tokens(stage):
    where = stage.locator(".card .where")
    token(stage, "mars", 0).focus()
    expect(where).to_have_text(says(1, "␣the", "99.00%"))
    stage.keyboard.press("ArrowRight")
    expect(where).to_have_text(says(2, 1, "␣quick"))
    stage.keyboard.press("Enter")
    expect(stage.locator(".card.pinned")).to_be_visible()
    stage.keyboard.press("Escape")
    expect(stage.locator(".card")).to_be_hidden()


def test_the_window_tells_accepted_first_rejected_and_unread(stage):
    token(stage, "mars", 0).hover()
    expect(caption(stage)).to_have_text(says(1, 4, "0.95"))
    expect(stage.locator(".slot:visible .mark")).to_have_text(["✓", "✗", "○", "○"])
    expect(stage.locator(".window .legend")).to_have_text(says("✓", "✗", "○"))
    expect(stage.locator(".slots")).to_have_class(re.compile("threshold"))


def test_a_lossless_window_tells_drafts_verified_and_the_group_kept(stage):
    put(stage, file_of(run("ar", [1] * 7), run("lossless", [1, 3, 3])))
    expect(stage.locator(".ghost")).to_be_hidden()  # τ plays no part
    token(stage, "lossless", 1).hover()
    expect(caption(stage)).to_have_text(says(2, 3, "group 2", "0–3"))  # 2 of 3 drafts verified, 3 accepted
    expect(stage.locator(".slot:visible .mark")).to_have_text(["✓", "✓", "✓", "✗", "◇"])
    expect(stage.locator(".window .legend")).to_have_text(says("✗", "◇"))


def copying() -> str:
    """Return a race in which two tokens of the second forward were copied, and a draft for the third."""
    lossless = [json.loads(line) for line in file_of(run("lossless", [1, 3, 3])).splitlines()]
    sources = (
        ["model", "copy", "copy", "copy"],
        ["copy", "copy", "model", "copy"],
        ["mask", "mask", "model"],
    )
    for step, names in zip([line for line in lossless if "pass" in line], sources):
        for slot, name in zip(step["slots"], names):
            slot["source"] = name
    return file_of(run("ar", [1] * 7)) + "".join(f"{json.dumps(line)}\n" for line in lossless)


def counts(side: Locator) -> Locator:
    """Find how many tokens came from each source."""
    return side.locator(".sources li b")


def test_copied_tokens_have_a_line_of_dots_and_a_word(stage):
    put(stage, copying())
    side = lane(stage, "lossless")
    copied = side.locator(".token.copied")
    expect(copied).to_have_text([" quick", " brown"])
    style = "node => getComputedStyle(node).textDecoration"
    assert {"underline", "dotted"} < {*copied.first.evaluate(style).split()}
    assert "underline" not in side.locator(".token:not(.copied)").first.evaluate(style)
    expect(counts(side)).to_have_text(["3", "2", "2"])
    for name in ("model", "mask", "copy"):
        expect(side.locator(f'.sources li[data-source="{name}"]')).to_be_visible()
    expect(side.locator(".sources .copied")).to_have_count(1)
    expect(lane(stage, "ar").locator(".sources")).to_be_hidden()
    copied.first.hover()
    expect(stage.locator(".card .source")).to_have_text(says("copy"))
    expect(caption(stage)).to_have_text(says(2, 3, "copied"))
    expect(stage.locator(".slot .candidate.copied:visible")).not_to_have_count(0)
    token(stage, "ar", 0).hover()
    expect(stage.locator(".card .source")).to_be_hidden()
    stage.keyboard.press("Home")
    stage.keyboard.press("ArrowRight")
    expect(side.locator(".sources")).to_be_hidden()  # the first token is the model's own
    stage.keyboard.press("ArrowRight")
    expect(counts(side)).to_have_text(["2", "2"])
    drawn = ElementTree.fromstring(saved(stage, "svg"))
    dots = [node for node in drawn.iter(f"{SVG}line") if node.get("stroke-dasharray") == "2 2"]
    assert len(dots) >= 3  # the two tokens and the word in the key


# --------------------------------------------------------------------------------------- replay


def test_keys_replay_without_the_server(stage):
    put(stage, slowed(race()))
    requests, play = [], stage.locator(".play")

    def note(request):
        requests.append(request.url)

    stage.on("request", note)
    stage.keyboard.press("Home")
    expect(shown(stage, "mars")).to_have_count(0)
    expect(shown(stage, "ar")).to_have_count(0)
    stage.keyboard.press("ArrowRight")
    stage.keyboard.press("ArrowRight")
    expect(shown(stage, "mars")).to_have_count(2)
    expect(shown(stage, "ar")).to_have_count(2)  # 24 s on both clocks
    expect(lane(stage, "mars").locator('[data-count="tokens"]')).to_have_text("4")
    expect(caption(stage)).to_have_text(says(2, 3, 4))
    stage.keyboard.press("ArrowLeft")
    expect(shown(stage, "mars")).to_have_count(1)
    stage.keyboard.press("End")
    expect(shown(stage, "ar")).to_have_count(10)
    stage.keyboard.press("Space")
    expect(play).to_have_text(PLAYING)
    stage.keyboard.press("Space")
    expect(play).to_have_text(PAUSED)
    stage.remove_listener("request", note)
    assert not requests


def test_a_replay_runs_to_the_end_on_the_runs_own_clock_and_keys_of_a_field_are_its_own(stage):
    speed = stage.locator(".speed")
    speed.select_option("1")
    stage.locator('[data-do="start"]').click()
    expect(shown(stage, "ar")).to_have_count(0)
    stage.locator(".play").click()
    expect(stage.locator(".clock")).to_have_text(re.compile(r"^0\.10 s\b.*0\.10 s$"))
    expect(stage.locator(".play")).to_have_text(PAUSED)
    expect(shown(stage, "ar")).to_have_count(10)
    speed.focus()
    stage.keyboard.press("Home")
    expect(speed).to_have_value("auto")
    expect(shown(stage, "ar")).to_have_count(10)


def test_dragging_over_a_strip_moves_all_lanes(stage):
    strip = lane(stage, "mars").locator(".strip")
    strip.scroll_into_view_if_needed()
    box = strip.bounding_box()
    y = box["y"] + box["height"] - 8
    stage.mouse.move(box["x"] + box["width"] * 0.05, y)  # 5 of 100 ms: forward 1 of MARS
    stage.mouse.down()
    expect(shown(stage, "mars")).to_have_count(1)
    stage.mouse.move(box["x"] + box["width"] * 0.3, y)
    expect(shown(stage, "mars")).to_have_count(3)
    expect(shown(stage, "ar")).to_have_count(3)
    stage.mouse.up()
    expect(strip).to_have_attribute("aria-valuenow", "3")
    expect(strip).to_have_attribute("aria-valuetext", says(3, 4))


# ------------------------------------------------------------------------- τ, strip and what if


def test_the_strip_shows_where_tau_changed(stage):
    expect(lane(stage, "mars").locator(".changes span")).to_have_text(["τ 0.95", "τ 0.50"])
    expect(lane(stage, "mars").locator(".bars rect")).to_have_count(4)
    expect(lane(stage, "ar").locator(".bars rect")).to_have_count(10)
    lane(stage, "mars").locator(".bars rect").nth(2).hover()
    expect(caption(stage)).to_have_text(says("0.50"))


def test_the_heat_map_has_a_cell_per_slot_and_outlines_what_was_accepted(stage):
    expect(stage.locator(".heat g")).to_have_count(4)
    expect(stage.locator(".heat [data-level]")).to_have_count(16)
    heights = stage.locator(".heat .accepted-cells").evaluate_all(
        "cells => cells.map(cell => Math.round(cell.getAttribute('height')))"
    )
    assert heights == [1, 3, 2, 4]
    stage.locator(".heat g").nth(1).locator("rect").first.click()
    expect(caption(stage)).to_have_text(says(2, 3, 4))
    expect(shown(stage, "mars")).to_have_count(2)


def test_what_if_states_each_forward_alone(stage):
    token(stage, "mars", 1).click()  # forward 2: 0.99, 0.89, 0.79, then below
    stage.locator(".ghost-range").fill("0.85")
    # Forward 2 would have accepted 2 instead of 3; 2 of 4 would differ.
    expect(stage.locator(".ghost-words")).to_have_text(says(2, 3, 4))
    expect(stage.locator(".ghost-bar")).to_have_count(2)
    expect(stage.locator(".heat .ghost-cells")).to_have_count(2)
    expect(stage.locator('[data-do="again"]')).to_have_text(says("0.85"))


# ---------------------------------------------------------------------------------------- files


def test_a_record_can_be_downloaded_and_read_again(stage):
    text = saved(stage, "jsonl").decode()
    given, got = (list(map(json.loads, lines.splitlines())) for lines in (race(), text))
    assert got == given
    ar, mars = read_runs(text.splitlines())
    assert (ar.forwards, mars.forwards) == (10, 4)


def test_a_record_can_be_chosen_as_a_file_or_dropped_on_the_stage(stage):
    give(stage, race().replace("Say it", "A file"))
    expect(stage.locator(".prompt")).to_have_text("A file")
    stage.evaluate(
        """text => {
          const data = new DataTransfer();
          data.items.add(new File([text], "run.jsonl"));
          for (const kind of ["dragover", "drop"]) {
            const event = new DragEvent(kind, { dataTransfer: data, bubbles: true });
            document.querySelector(".lanes").dispatchEvent(event);
          }
        }""",
        race(),
    )
    expect(stage.locator(".prompt")).to_have_text("Say it")
    expect(shown(stage, "mars")).to_have_count(4)


def test_pictures_are_real_svg_with_the_text_in_it_and_a_png_of_twice_the_size(stage):
    picture = ElementTree.fromstring(saved(stage, "svg"))
    texts = [node.text for node in picture.iter(f"{SVG}text")]
    assert {f" {word}" for word in WORDS[:9]} <= {*texts}
    assert any("same answer" in text for text in texts)  # the verdict
    assert not list(picture.iter(f"{SVG}foreignObject"))
    data = saved(stage, "png")
    assert data.startswith(b"\x89PNG")
    width = int.from_bytes(data[16:20], "big")
    assert width == pytest.approx(2 * (stage.locator(".stage").bounding_box()["width"] + 48), abs=4)


# ------------------------------------------------------------------------------------ appearance


def test_every_text_is_drawn_as_it_is(stage):
    words = [
        "<script>alert(1)</script>",
        "${1+1}",
        "{{1+1}}",
        "\n\tif x:",
        "שלום",
        "👩‍🚀",
        "",
        "  ",
        "&amp;",
        ".",
    ]
    put(stage, file_of(run("ar", [1] * 10, words=words), run("mars", [1, 3, 2, 4], [0.9] * 4, words=words)))
    expected = "".join(f" {word}" for word in words[:9])
    for name in ("ar", "mars"):
        assert lane(stage, name).locator(".answer").text_content() == expected
    expect(stage.locator(".stage script, .stage img")).to_have_count(0)


def test_reduced_motion_stills_the_tokens(stage):
    assert stage.locator(".pass").first.evaluate("n => getComputedStyle(n).animationName") == "none"


@pytest.mark.full
def test_an_empty_stage_says_what_its_page_says(visit, serve):
    with App() as demo:
        Stage(shelf=False, empty="Press Train: <b>watch</b> ${1+1} {{1+1}}")
        Stage(shelf=False, elem_id="usual")
    page = visit(address=serve(demo))
    expect(page.locator("#stage .verdict")).to_have_text("Press Train: <b>watch</b> ${1+1} {{1+1}}")
    expect(page.locator("#usual .verdict")).not_to_be_empty()


# -------------------------------------------------------------------- answers longer than their room

PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1440, "height": 900}
LONG = [f"word{n}" for n in range(240)]


def long_race() -> list[str]:
    """Return the lines of a race as it went, of an answer that no box has room for."""
    runs = {
        "ar": run("ar", [1] * 240, words=LONG),
        "mars": run("mars", [3] * 80, [0.9] * 80, words=LONG),
    }
    again = {lane: Run(single.settings, iter(single.passes)) for lane, single in runs.items()}
    return list(record(again, lambda: False))


def in_view(token: Locator) -> None:
    """Wait until a token is in view within its answer."""
    token.page.wait_for_function(
        """node => {
          const [box, frame] = [node, node.closest(".answer")].map((one) => one.getBoundingClientRect());
          return box.top > frame.top - 2 && box.bottom < frame.bottom + 2;
        }""",
        arg=token.element_handle(),
    )


def to_top(page: Page, name: str) -> Locator:
    """Find the button that scrolls an answer to its start."""
    return lane(page, name).locator(".to-top")


@pytest.mark.full
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_long_answer_follows_its_head_and_ends_at_its_start(visit, serve, size):
    lines = long_race()
    values = ["".join(lines[:end]) for end in (150, 250, len(lines))]
    with App() as demo:
        stage = Stage(values[0])
        for number, value in enumerate(values):
            button = gr.Button(f"value {number}")
            button.click(lambda value=value: value, None, stage, show_progress="hidden")
    page = visit(address=serve(demo), viewport=size)
    reading, tokens = lane(page, "ar").locator(".reading"), lane(page, "ar").locator(".token")

    expect(reading).to_have_class("reading above")  # it runs: its head is seen, a fade says there is more
    in_view(tokens.last)
    before = tokens.count()
    page.get_by_role("button", name="value 1").click()
    expect(tokens).not_to_have_count(before)
    in_view(tokens.last)
    to_top(page, "ar").click()
    expect(reading).to_have_class("reading below")
    expect(to_top(page, "ar")).to_be_hidden()
    in_view(tokens.first)
    small = reading.bounding_box()["height"]

    page.get_by_role("button", name="value 2").click()
    expect(tokens).to_have_count(240)
    for name in ("ar", "mars"):  # it has ended: more room, and from the start
        expect(lane(page, name).locator(".reading")).to_have_class("reading below")
        in_view(token(page, name, 0))
    assert 1.5 * small < reading.bounding_box()["height"] < 0.65 * size["height"]

    strip = lane(page, "ar").locator(".strip")
    box = strip.bounding_box()
    strip.click(position={"x": 0.3 * box["width"], "y": box["height"] - 8})
    expect(shown(page, "mars")).not_to_have_count(80)
    for name in ("ar", "mars"):  # a replay follows its head again
        in_view(shown(page, name).last.locator(".token").last)
    page.keyboard.press("Space")
    expect(page.locator(".stage")).to_have_class(re.compile("replaying"))
    lanes = [lane(page, name).bounding_box()["height"] for name in ("ar", "mars")]
    assert size == DESKTOP or sum(lanes) < PHONE["height"]  # on a phone a race fits one screen
    page.keyboard.press("Space")
    page.keyboard.press("End")
    for name in ("ar", "mars"):
        expect(lane(page, name).locator(".reading")).to_have_class("reading below")
        in_view(token(page, name, 0))
    picture = ElementTree.fromstring(saved(page, "svg"))
    words = Counter(" ".join(text.text for text in picture.iter(f"{SVG}text")).split())
    assert [word for word in LONG[:-1] if words[word] < 2] == []


# --------------------------------------------------------------------------------- the first screen


@pytest.fixture
def first_screen(visit, serve, tmp_path, monkeypatch):
    """Open a page whose first recording takes a hundred seconds: its replay can be met on the way."""
    (tmp_path / "slow.jsonl").write_text(slowed(race()), "utf-8")
    entry = {"id": "slow", "title": "Slow", "note": "", "prompt": "Say it"}
    (tmp_path / "index.json").write_text(json.dumps([entry]), "utf-8")
    monkeypatch.setattr(recordings, "FOLDER", tmp_path)
    with App() as demo:
        gr.Textbox(elem_id="prompt")
        Stage()
    address = serve(demo)

    def open_page(query: str = "", motion: str = "no-preference") -> Page:
        page = visit(query, address, reduced_motion=motion)
        expect(page.locator(".token").first).to_be_attached()
        return page

    return open_page


@pytest.mark.full
def test_the_first_screen_replays_until_a_visitor_does_something(first_screen):
    page = first_screen()
    play, future = page.locator(".play"), page.locator(".pass.future")
    expect(page.locator(".hint")).to_be_visible()
    expect(play).to_have_text(PLAYING)
    expect(future).not_to_have_count(0)
    page.locator("#prompt textarea").press_sequentially("Hi there")
    expect(play).to_have_text(PAUSED)
    expect(future).to_have_count(0)

    page.reload()
    expect(play).to_have_text(PLAYING)
    play.click()  # its own controls do what they say
    expect(play).to_have_text(PAUSED)
    expect(future).not_to_have_count(0)
    play.click()
    expect(play).to_have_text(PLAYING)
    page.locator(".verdict").click()  # what a visitor has started is not ended by a click
    expect(play).to_have_text(PLAYING)

    page.reload()
    expect(play).to_have_text(PLAYING)
    expect(shown(page, "mars")).to_have_count(0)
    page.keyboard.press("ArrowRight")
    expect(shown(page, "mars")).to_have_count(1)
    expect(play).to_have_text(PAUSED)


@pytest.mark.full
def test_nothing_moves_where_a_forward_is_asked_for_or_motion_is_not_wanted(first_screen):
    still = first_screen(motion="reduce")
    at = first_screen("run=slow&lane=mars&pass=2")
    expect(caption(at)).to_have_text(says(2, 3, 4))
    for page, future in ((still, 0), (at, 10)):
        # A replay would have begun by the second frame after the stage has been seen.
        page.evaluate(
            """() => new Promise((done) => {
              const twice = () => requestAnimationFrame(() => requestAnimationFrame(done));
              new IntersectionObserver(twice).observe(document.querySelector(".lane"));
            })"""
        )
        expect(page.locator(".play")).to_have_text(PAUSED)
        expect(page.locator(".pass.future")).to_have_count(future)
