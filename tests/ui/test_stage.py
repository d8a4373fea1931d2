"""The stage alone in a real browser, on recorded and made-up runs; no model is loaded."""

import json
import re

import gradio as gr
import pytest
from on_stage import PAUSED, PLAYING, caption, lane, put, says, shown, token
from playwright.sync_api import Locator, Page, expect
from records import file_of, race, recorded, run, slowed

from mars_demo.core.trace import Run
from mars_demo.show import recordings
from mars_demo.ui.page import App
from mars_demo.ui.racing import record
from mars_demo.ui.stage import Stage


@pytest.fixture
def stage(stage):
    """Return the stage that the tests of this module share, with a made-up race."""
    put(stage, race())
    return stage


@pytest.fixture
def look(visit, stage_url):
    """Open a new stage, by default with a made-up race."""

    def open_stage(query: str = "", file: str | None = race(), **options) -> Page:
        page = visit(query, stage_url, **options)
        expect(page.locator(".token").first).to_be_attached()  # a recorded run
        if file is not None:
            put(page, file)
        return page

    return open_stage


@pytest.fixture
def serve():
    """Serve apps until the test ends."""
    served = []

    def start(demo: App) -> str:
        served.append(demo)
        return demo.launch(prevent_thread_lock=True, quiet=True)[1]

    yield start
    for demo in served:
        demo.close()


# ------------------------------------------------------------------------------- recorded runs


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


# ----------------------------------------------------------------------------------------- the verdict


def test_the_stage_names_the_model_the_device_and_the_precision(stage):
    expect(stage.locator(".machine")).to_have_text(says("toy", "CPU", "float32"))
    put(stage, race().replace('"cpu"', '"cuda", "gpu": "NVIDIA <b>H200"').replace("float32", "bfloat16"))
    expect(stage.locator(".machine")).to_have_text(says("toy", "NVIDIA <b>H200", "bfloat16"))


def test_the_verdict_has_the_numbers_of_a_race_and_the_first_difference_is_marked(stage):
    expect(stage.locator(".verdict")).to_have_text(says("MARS", "2.5", "2.1×", "same answer"))
    expect(stage.locator(".verdict")).to_have_attribute("role", "status")
    expect(stage.locator(".differs")).to_have_count(0)
    expect(stage.locator(".shares .part")).to_have_text(["25% (1)"] * 4)  # of the forwards: 1 to 4 tokens
    other = "the quick brown cat sleeps and snores".split()
    put(stage, file_of(run("ar", [1] * 10), run("mars", [2, 3, 3], [0.9] * 3, words=other)))
    expect(stage.locator(".verdict")).to_have_text(says("MARS", "2.7", "2.2×", "token 4"))
    expect(lane(stage, "ar").locator(".differs")).to_have_text([" fox"])
    expect(lane(stage, "mars").locator(".differs")).to_have_text([" cat"])


def test_warnings_are_behind_a_sign(stage):
    expect(stage.locator(".sign")).to_be_hidden()
    put(stage, '"ms":900.0'.join(race().rsplit('"ms":12.0', 1)))  # the last forward of MARS
    stage.locator(".sign").click()
    expect(stage.locator(".warnings")).to_be_visible()
    expect(stage.locator(".warnings")).to_have_text(says("MARS", 900, 75))


# ------------------------------------------------------------------------ a token and its forward


def test_hovering_a_token_highlights_its_forward_and_a_click_pins_it(stage):
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


def test_the_window_marks_accepted_first_rejected_and_unread_slots(stage):
    token(stage, "mars", 0).hover()
    expect(caption(stage)).to_have_text(says(1, 4, "0.95"))
    expect(stage.locator(".slot:visible .mark")).to_have_text(["✓", "✗", "○", "○"])
    expect(stage.locator(".window .legend")).to_have_text(says("✓", "✗", "○"))
    expect(stage.locator(".slots")).to_have_class(re.compile("threshold"))


def test_tokens_of_n_gram_drafts_have_a_dotted_line_and_a_word(stage):
    put(stage, recordings.recording("quoting"))
    steps = recorded("quoting", "lossless").passes
    accepted = [slot for step in steps for slot in step.slots[: step.accepted]]
    side = lane(stage, "lossless")
    tokens = side.locator(".token.copied")
    expect(tokens).to_have_text([slot.text for slot in accepted if slot.source == "copy"])
    style = "node => getComputedStyle(node).textDecoration"
    assert {"underline", "dotted"} < {*tokens.first.evaluate(style).split()}
    assert "underline" not in side.locator(".token:not(.copied)").first.evaluate(style)
    side.locator(".name").click()
    tokens.first.hover()
    expect(stage.locator(".card .source")).to_have_text(says("copy"))
    expect(stage.locator(".slot .candidate.copied:visible")).not_to_have_count(0)


# --------------------------------------------------------------------------------------- replay


def test_a_replay_follows_the_clock_of_the_run_and_ignores_keys_of_fields(stage):
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
    expect(lane(stage, "mars").locator('[data-count="tokens"]')).to_have_text("6")
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


def test_the_heat_map_has_a_cell_per_slot_and_outlines_accepted_ones(stage):
    expect(stage.locator(".heat g")).to_have_count(4)
    expect(stage.locator(".heat [data-level]")).to_have_count(16)
    heights = stage.locator(".heat .accepted-cells").evaluate_all(
        "cells => cells.map(cell => Math.round(cell.getAttribute('height')))"
    )
    assert heights == [1, 3, 2, 4]
    stage.locator(".heat g").nth(1).locator("rect").first.click()
    expect(caption(stage)).to_have_text(says(2, 3, 4))
    expect(shown(stage, "mars")).to_have_count(2)


# ------------------------------------------------------------------------------------ appearance


def test_reduced_motion_stops_animations_and_the_replay(stage, stage_url):
    assert stage.locator(".pass").first.evaluate("n => getComputedStyle(n).animationName") == "none"
    stage.goto(stage_url)
    expect(stage.locator(".token").first).to_be_attached()
    expect(stage.locator(".play")).to_have_text(PAUSED)
    expect(stage.locator(".pass.future")).to_have_count(0)


# -------------------------------------------------------------------------------------- long answers

LONG = [f"word{n}" for n in range(240)]


def in_view(token: Locator) -> None:
    """Wait until a token is in view within its answer."""
    token.page.wait_for_function(
        """node => {
          const [box, frame] = [node, node.closest(".answer")].map((one) => one.getBoundingClientRect());
          return box.top > frame.top - 2 && box.bottom < frame.bottom + 2;
        }""",
        arg=token.element_handle(),
    )


@pytest.mark.full
def test_a_long_answer_scrolls_while_running_and_ends_at_its_start(visit, serve):
    runs = {
        name: Run(single.settings, iter(single.passes))
        for name, single in (
            ("ar", run("ar", [1] * 240, words=LONG)),
            ("mars", run("mars", [3] * 80, [0.9] * 80, words=LONG)),
        )
    }
    lines = list(record(runs, lambda: False))
    with App() as demo:
        stage = Stage("".join(lines[:150]), entries=recordings.index())
        gr.Button("finish").click(lambda: "".join(lines), None, stage, show_progress="hidden")
    page = visit(base_url=serve(demo), viewport={"width": 390, "height": 844})
    reading, tokens = lane(page, "ar").locator(".reading"), lane(page, "ar").locator(".token")

    expect(reading).to_have_class("reading above")  # running: scrolled to the end, fade above
    in_view(tokens.last)
    lane(page, "ar").locator(".to-top").click()
    expect(reading).to_have_class("reading below")
    in_view(tokens.first)
    small = reading.bounding_box()["height"]

    page.get_by_role("button", name="finish").click()
    expect(tokens).to_have_count(240)
    expect(reading).to_have_class("reading below")  # finished: a larger box, from the start
    in_view(tokens.first)
    assert 1.5 * small < reading.bounding_box()["height"] < 0.65 * 844

    strip = lane(page, "ar").locator(".strip")
    box = strip.bounding_box()
    strip.click(position={"x": 0.3 * box["width"], "y": box["height"] - 8})
    expect(shown(page, "mars")).not_to_have_count(80)
    in_view(shown(page, "ar").last.locator(".token").last)  # a replay shows its newest tokens
    page.keyboard.press("Space")
    expect(page.locator(".stage")).to_have_class(re.compile("replaying"))
    lanes = [lane(page, name).bounding_box()["height"] for name in ("ar", "mars")]
    assert sum(lanes) < 844  # a race fits one phone screen


# --------------------------------------------------------------------------------- the first screen


@pytest.fixture
def first_screen(visit, serve, tmp_path, monkeypatch):
    """Open a page whose first recording replays for 100 s, so that tests can interrupt it."""
    (tmp_path / "slow.jsonl").write_text(slowed(race()), "utf-8")
    entry = {"id": "slow", "title": "Slow", "note": "", "prompt": "Say it"}
    (tmp_path / "index.json").write_text(json.dumps([entry]), "utf-8")
    monkeypatch.setattr(recordings, "FOLDER", tmp_path)
    with App() as demo:
        gr.Textbox(elem_id="prompt")
        Stage(entries=recordings.index())
    base_url = serve(demo)

    def open_page(query: str = "") -> Page:
        page = visit(query, base_url, reduced_motion="no-preference")
        expect(page.locator(".token").first).to_be_attached()
        return page

    return open_page


@pytest.mark.full
def test_the_first_screen_replays_until_the_visitor_acts(first_screen):
    page = first_screen()
    play, future = page.locator(".play"), page.locator(".pass.future")
    expect(page.locator(".note")).to_contain_text("press Run")
    expect(play).to_have_text(PLAYING)
    expect(future).not_to_have_count(0)
    page.locator("#prompt textarea").press_sequentially("Hi there")
    expect(play).to_have_text(PAUSED)
    expect(future).to_have_count(0)

    page.reload()
    expect(play).to_have_text(PLAYING)
    play.click()  # the controls of the replay still work
    expect(play).to_have_text(PAUSED)
    expect(future).not_to_have_count(0)
    play.click()
    expect(play).to_have_text(PLAYING)
    page.locator(".verdict").click()  # a click does not end a replay started by the visitor
    expect(play).to_have_text(PLAYING)

    page.reload()
    expect(play).to_have_text(PLAYING)
    expect(shown(page, "mars")).to_have_count(0)
    page.keyboard.press("ArrowRight")
    expect(shown(page, "mars")).to_have_count(1)
    expect(play).to_have_text(PAUSED)


@pytest.mark.full
def test_a_url_with_a_forward_starts_no_replay(first_screen):
    at = first_screen("run=slow&lane=mars&pass=2")
    expect(caption(at)).to_have_text(says(2, 3, 4))
    # A replay would start within two frames after the stage becomes visible.
    at.evaluate(
        """() => new Promise((done) => {
          const twice = () => requestAnimationFrame(() => requestAnimationFrame(done));
          new IntersectionObserver(twice).observe(document.querySelector(".lane"));
        })"""
    )
    expect(at.locator(".play")).to_have_text(PAUSED)
    expect(at.locator(".pass.future")).to_have_count(10)
