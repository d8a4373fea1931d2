"""The stage alone in a real browser, on recorded and made-up runs: no model is loaded anywhere here."""

import json
import re
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree

import gradio as gr
import pytest
from playwright.sync_api import Locator, Page, expect
from records import WORDS, file_of, race, run

from mars_demo.decoding.trace import Run, read_runs
from mars_demo.ui.components.stage import Stage
from mars_demo.ui.page import LOOK
from mars_demo.ui.racing import record
from mars_demo.views import recordings


@pytest.fixture
def look(visit, stage_url):
    """Open the stage, by default with a made-up race on it."""

    def open_stage(query: str = "", file: str | None = race(), **options) -> Page:
        page = visit(query, stage_url, **options)
        expect(page.locator(".token").first).to_be_attached()  # a recorded run
        if file is not None:
            give(page, file)
            expect(page.locator(".prompt")).to_have_text("Say it")
        return page

    return open_stage


def give(page: Page, text: str) -> None:
    page.locator(".file").set_input_files(
        {"name": "run.jsonl", "mimeType": "application/x-ndjson", "buffer": text.encode()}
    )


def test_the_stage_names_the_model_the_device_and_the_precision(look):
    page = look()
    expect(page.locator(".machine")).to_have_text("toy on CPU, float32")
    on_a_gpu = race().replace('"cpu"', '"cuda", "gpu": "NVIDIA <b>H200"').replace("float32", "bfloat16")
    give(page, on_a_gpu)
    expect(page.locator(".machine")).to_have_text("toy on NVIDIA <b>H200, bfloat16")


def lane(page: Page, name: str) -> Locator:
    return page.locator(f'.lane[data-lane="{name}"]')


def shown(page: Page, name: str) -> Locator:
    return lane(page, name).locator(".pass:not(.future)")


def caption(page: Page) -> Locator:
    return page.locator(".window .caption")


# ------------------------------------------------------------------------------- recorded runs


def test_a_recorded_run_is_there_when_the_page_opens(look):
    page = look(file=None)
    first = recordings.index()[0]
    expect(page.locator(".note")).to_contain_text(first["title"])
    expect(page.locator(".prompt")).to_have_text(first["prompt"])
    expect(page.locator(".verdict")).to_contain_text("as fast as one token at a time")


@pytest.mark.parametrize("entry", recordings.index(), ids=lambda entry: entry["id"])
def test_every_recorded_run_can_be_chosen(look, entry):
    page = look(file=None)
    page.locator(".recordings").select_option(entry["id"])
    expect(page.locator(".note")).to_contain_text(entry["title"])
    expect(page.locator(".trouble")).to_be_hidden()
    text = (recordings.FOLDER / f"{entry['id']}.jsonl").read_text("utf-8")
    for single in read_runs(text.splitlines()):
        answer = lane(page, single.settings.mode).locator(".answer")
        assert answer.text_content() == single.text


# ------------------------------------------------------------------------------------- numbers


def test_the_result_is_said_in_words_and_the_first_difference_marked(look):
    words = "the quick brown cat sleeps and snores".split()
    other = run("mars", [2, 3, 3], [0.9] * 3, words=words)
    page = look(file=file_of(run("ar", [1] * 10), other))
    expect(page.locator(".verdict")).to_have_text(
        "MARS: 8 tokens in 3 forwards, 2.7 per forward, 2.2× as fast as one token at a time; "
        "differs from token 4 on."
    )
    expect(page.locator(".verdict")).to_have_attribute("role", "status")
    assert lane(page, "ar").locator(".differs").all_text_contents() == [" fox"]
    assert lane(page, "mars").locator(".differs").all_text_contents() == [" cat"]


def test_the_candidates_of_the_first_difference_stand_side_by_side(look):
    """Token 4: AR's fourth forward, and the second slot of the second forward of MARS."""
    other = run("mars", [2, 3, 3], [0.9] * 3, words="the quick brown cat sleeps and snores".split())
    page = look(file=file_of(run("ar", [1] * 10), other))
    panel = page.get_by_role("region", name="First difference")
    expect(panel.get_by_role("heading", level=3)).to_have_text("First difference: token 4")
    expect(panel.locator(".difference-before")).to_have_text(" the quick brown")
    sides = panel.locator(".difference-sides > div")
    expect(sides.nth(0)).to_contain_text("Forward 4, slot 1: “␣fox”, confidence 99.00%")
    expect(sides.nth(1)).to_contain_text("Forward 2, slot 2: “␣cat”, confidence 89.00%")
    expect(sides.nth(0).locator("li .candidate")).to_have_text(["␣fox", "␣or"])
    lane(page, "ar").locator(".name").click()  # it is the same from both sides
    expect(sides.nth(1)).to_contain_text("Forward 2, slot 2")
    give(page, race())
    expect(panel).to_be_hidden()  # the same answer


def test_candidates_without_a_probability_are_as_if_they_were_not_named(look):
    """A record of another hand; AR's token is the third candidate of MARS."""
    ar, mars = run("ar", [1] * 10), run("mars", [2, 3, 3], [0.9] * 3, words="the quick brown cat".split())
    ids = (mars.token_ids[3], 999, ar.token_ids[3])
    slots = list(mars.passes[1].slots)
    slots[1] = replace(slots[1], candidates=ids)
    mars.passes[1] = replace(mars.passes[1], slots=tuple(slots))
    page = look(file=file_of(ar, mars))
    row = page.get_by_role("region", name="First difference").locator(".odds tbody tr").nth(1)
    expect(row.locator("td")).to_have_text(["less than 0.50%", "89.00%"])


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ((0.41, 0.38), ", where two tokens were nearly tied (41.00% and 38.00%) and rounding in bfloat16"),
        ((0.81, 0.11), "."),
    ],
)
def test_a_near_tie_that_went_the_other_way_is_said(look, shares, said):
    """Only where the mode promises the answer of one token at a time, and the two were close there."""

    def rounded(made, best, second):
        made.settings = replace(made.settings, dtype="bfloat16")
        at = 0
        for number, step in enumerate(made.passes):
            slots = list(step.slots)
            if at <= 3 < at + step.accepted:
                slots[3 - at] = replace(slots[3 - at], top=((best, shares[0]), (second, shares[1])))
                made.passes[number] = replace(step, slots=tuple(slots))
            at += step.accepted
        return made

    ar = rounded(run("ar", [1] * 10), " fox", " cat")
    words = "the quick brown cat sleeps and snores".split()
    lossless = rounded(run("lossless", [2, 3, 3], words=words), " cat", " fox")
    lossy = rounded(run("mars", [2, 3, 3], [0.9] * 3, words=words), " cat", " fox")
    page = look(file=file_of(ar, lossless))
    expect(page.locator(".verdict")).to_contain_text(f"differs from token 4 on{said}")
    page = look(file=file_of(ar, lossy))
    expect(page.locator(".verdict")).to_contain_text("differs from token 4 on.")


def test_same_answers_are_called_the_same(look):
    page = look()
    expect(page.locator(".verdict")).to_contain_text("10 tokens in 4 forwards, 2.5 per forward")
    expect(page.locator(".verdict")).to_contain_text("same answer")
    expect(page.locator(".differs")).to_have_count(0)


def test_shares_count_the_forwards_that_accepted_so_many_tokens(look):
    page = look()
    parts = page.locator(".share .part")
    assert parts.all_text_contents() == ["25% (1)"] * 4


# ------------------------------------------------------------------------ a token and its forward


def test_hovering_a_token_lights_its_whole_forward(look):
    page = look()
    token = lane(page, "mars").locator(".token").nth(2)
    token.hover()
    card = page.locator(".card")
    expect(card).to_contain_text("Forward 2, slot 2: “␣brown”, confidence 89.00%")
    expect(card.locator("li")).to_have_count(2)
    expect(lane(page, "mars").locator(".pass.lit")).to_have_text(" quick brown fox")
    expect(lane(page, "mars").locator("rect.lit")).to_have_attribute("data-pass", "1")
    expect(page.locator(".heat g.lit")).to_have_attribute("data-pass", "1")
    expect(caption(page)).to_have_text("Forward 2: 3 of 4 slots accepted, τ 0.95")
    expect(page.locator(".slot.inspected .candidate")).to_have_text("␣brown")
    page.locator(".verdict").hover()
    expect(card).to_be_hidden()
    expect(page.locator(".lit")).to_have_count(0)


def test_a_click_pins_a_token_until_it_is_clicked_again(look):
    page = look()
    token = lane(page, "mars").locator(".token").nth(2)
    token.click()
    page.locator(".verdict").hover()
    expect(page.locator(".card.pinned")).to_contain_text("Forward 2, slot 2")
    expect(caption(page)).to_contain_text("Forward 2:")
    token.click()
    page.locator(".verdict").hover()
    expect(page.locator(".card")).to_be_hidden()


def test_the_keyboard_reads_and_pins_tokens(look):
    page = look()
    lane(page, "mars").locator(".token").first.focus()
    expect(page.locator(".card")).to_contain_text("Forward 1, slot 1")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".card")).to_contain_text("Forward 2, slot 1")
    page.keyboard.press("Enter")
    expect(page.locator(".card.pinned")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".card")).to_be_hidden()


def test_a_tap_shows_the_card_at_the_bottom_of_a_phone(visit, stage_url):
    page = visit("", stage_url, has_touch=True, is_mobile=True)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator(".token").first).to_be_attached()
    lane(page, "mars").locator(".token").nth(2).tap()
    card = page.locator(".card.pinned")
    expect(card).to_be_visible()
    box = card.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    assert box["y"] + box["height"] <= 844


def test_the_window_tells_accepted_first_rejected_and_unread(look):
    page = look()
    lane(page, "mars").locator(".pass").first.locator(".token").hover()
    expect(caption(page)).to_have_text("Forward 1: 1 of 4 slots accepted, τ 0.95")
    assert page.locator(".slot:visible .mark").all_inner_texts() == ["✓", "✗", "○", "○"]
    expect(page.locator(".window .legend")).to_contain_text("✗ first below τ")
    expect(page.locator(".slots")).to_have_class(re.compile("threshold"))


def test_a_lossless_window_tells_drafts_verified_and_the_group_kept(look):
    page = look(file=file_of(run("ar", [1] * 7), run("lossless", [1, 3, 3])))
    lane(page, "lossless").locator(".pass").nth(1).locator(".token").first.hover()
    expect(caption(page)).to_contain_text("2 of 3 drafts verified, 3 accepted; mask group 2 of 0–3 kept")
    marks = page.locator(".slot:visible .mark").all_inner_texts()
    assert marks == ["✓", "✓", "✓", "✗", "◇"]
    expect(page.locator(".window .legend")).to_contain_text("draft that the model replaced")


def copying() -> str:
    """A run of which two tokens of the second forward were copied, and a draft for the third."""
    lines = file_of(run("ar", [1] * 7), run("lossless", [1, 3, 3])).splitlines()
    steps = [json.loads(line) for line in lines]
    forwards = [
        step for step in steps[steps.index(next(s for s in steps if s.get("mode") == "lossless")) :]
    ]
    for step, sources in zip(
        [step for step in forwards if "pass" in step],
        (["model", "copy", "copy", "copy"], ["copy", "copy", "model", "copy"], ["mask", "mask", "model"]),
    ):
        for slot, source in zip(step["slots"], sources):
            slot["source"] = source
    return "".join(f"{json.dumps(step)}\n" for step in steps)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_copied_tokens_have_a_line_of_dots_and_a_word(look, scheme):
    page = look(f"__theme={scheme}", copying())
    side = lane(page, "lossless")
    copied = side.locator(".token.copied")
    assert copied.all_text_contents() == [" quick", " brown"]
    style = (
        "node => (({ textDecorationLine: a, textDecorationStyle: b }) => [a, b])(getComputedStyle(node))"
    )
    assert copied.first.evaluate(style) == ["underline", "dotted"]
    assert side.locator(".token:not(.copied)").first.evaluate(style) == ["none", "solid"]
    expect(side.locator(".sources li")).to_have_text(["3model", "2mask", "2copy"])
    expect(side.locator(".sources .copied")).to_have_text("copy")
    expect(lane(page, "ar").locator(".sources")).to_be_hidden()
    copied.first.hover()
    expect(page.locator(".card .source")).to_have_text("Source: copy (repeats earlier text).")
    expect(caption(page)).to_contain_text("2 of 3 drafts verified, 3 accepted; the next drafts are copied")
    expect(page.locator(".window .legend")).to_contain_text("dotted line: copied")
    lane(page, "ar").locator(".token").first.hover()
    expect(page.locator(".card .source")).to_be_hidden()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(side.locator(".sources")).to_be_hidden()  # the first token is the model's own
    page.keyboard.press("ArrowRight")
    expect(side.locator(".sources li")).to_have_text(["2model", "2copy"])
    with page.expect_download() as download:
        page.locator('[data-do="svg"]').click()
    drawn = ElementTree.fromstring(download.value.path().read_bytes())
    dots = [
        node
        for node in drawn.iter("{http://www.w3.org/2000/svg}line")
        if node.get("stroke-dasharray") == "2 2"
    ]
    assert len(dots) >= 3  # the two tokens and the word in the key


# --------------------------------------------------------------------------------------- replay


def test_keys_replay_without_the_server(look):
    page = look()
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.keyboard.press("Home")
    expect(shown(page, "mars")).to_have_count(0)
    expect(shown(page, "ar")).to_have_count(0)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(shown(page, "mars")).to_have_count(2)
    expect(shown(page, "ar")).to_have_count(2)  # 24 ms on both clocks
    expect(lane(page, "mars").locator('[data-count="tokens"]')).to_have_text("4")
    expect(caption(page)).to_contain_text("Forward 2:")
    page.keyboard.press("ArrowLeft")
    expect(shown(page, "mars")).to_have_count(1)
    page.keyboard.press("End")
    expect(shown(page, "ar")).to_have_count(10)
    page.keyboard.press("Space")
    expect(page.locator(".play")).to_have_text("⏸ Pause")
    page.keyboard.press("Space")
    expect(page.locator(".play")).to_have_text("▶ Play")
    assert not requests


def test_a_replay_runs_to_the_end_on_the_runs_own_clock(look):
    page = look()
    page.locator(".speed").select_option("1")
    page.locator(".play").click()
    expect(page.locator(".play")).to_have_text("▶ Play")
    expect(page.locator(".clock")).to_have_text("0.10 s of 0.10 s")
    expect(shown(page, "ar")).to_have_count(10)


def test_dragging_over_a_strip_moves_all_lanes(look):
    page = look()
    box = lane(page, "mars").locator(".strip").bounding_box()
    y = box["y"] + box["height"] - 8
    page.mouse.move(box["x"] + box["width"] * 0.05, y)  # 5 of 100 ms: forward 1 of MARS
    page.mouse.down()
    expect(shown(page, "mars")).to_have_count(1)
    page.mouse.move(box["x"] + box["width"] * 0.3, y)
    expect(shown(page, "mars")).to_have_count(3)
    expect(shown(page, "ar")).to_have_count(3)
    page.mouse.up()
    expect(lane(page, "mars").locator(".strip")).to_have_attribute("aria-valuetext", "forward 3 of 4")


def test_typing_into_a_field_does_not_replay(look):
    page = look()
    page.locator(".speed").focus()
    page.keyboard.press("Home")
    expect(shown(page, "ar")).to_have_count(10)


# ------------------------------------------------------------------------- τ, strip and what if


def test_the_strip_shows_where_tau_changed(look):
    page = look()
    labels = lane(page, "mars").locator(".changes span")
    assert labels.all_text_contents() == ["τ 0.95", "τ 0.50"]
    expect(lane(page, "mars").locator(".bars rect")).to_have_count(4)
    expect(lane(page, "ar").locator(".bars rect")).to_have_count(10)
    lane(page, "mars").locator(".bars rect").nth(2).hover()
    expect(caption(page)).to_contain_text("τ 0.50")


def test_the_heat_map_has_a_cell_per_slot_and_outlines_what_was_accepted(look):
    page = look()
    expect(page.locator(".heat g")).to_have_count(4)
    expect(page.locator(".heat [data-level]")).to_have_count(16)
    heights = page.locator(".heat .accepted-cells").evaluate_all(
        "cells => cells.map(cell => Math.round(cell.getAttribute('height')))"
    )
    assert heights == [1, 3, 2, 4]
    page.locator(".heat g").nth(1).locator("rect").first.click()
    expect(caption(page)).to_contain_text("Forward 2:")
    expect(shown(page, "mars")).to_have_count(2)


def test_what_if_states_each_forward_alone(look):
    page = look()
    lane(page, "mars").locator(".token").nth(1).click()  # forward 2: 0.99, 0.89, 0.79, then below
    page.locator(".ghost-range").fill("0.85")
    words = page.locator(".ghost-words")
    expect(words).to_contain_text("Forward 2 would have accepted 2 instead of 3.")
    expect(words).to_contain_text("2 of 4 forwards would differ, each taken alone")
    expect(page.locator(".ghost-bar")).to_have_count(2)
    expect(page.locator(".heat .ghost-cells")).to_have_count(2)
    expect(page.locator('[data-do="again"]')).to_have_text("Run again with τ 0.85")


def test_what_if_is_not_offered_where_tau_plays_no_part(look):
    page = look(file=file_of(run("ar", [1] * 7), run("lossless", [1, 3, 3])))
    expect(page.locator(".ghost")).to_be_hidden()


# -------------------------------------------------------------------------------- files and links


def test_a_record_can_be_downloaded_and_read_again(look):
    page = look()
    with page.expect_download() as download:
        page.locator('[data-do="jsonl"]').click()
    text = download.value.path().read_text("utf-8")
    given, got = (list(map(json.loads, lines.splitlines())) for lines in (race(), text))
    assert got == given
    ar, mars = read_runs(text.splitlines())
    assert (ar.forwards, mars.forwards) == (10, 4)


def test_a_record_can_be_dropped_on_the_stage(look):
    page = look(file=None)
    page.evaluate(
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
    expect(page.locator(".prompt")).to_have_text("Say it")
    expect(shown(page, "mars")).to_have_count(4)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("no record at all", "line 1 cannot be read: it is not JSON."),
        ('{"schema": 3, "run": "x", "mode": "ar"}', "line 1 cannot be read: model is missing."),
        ('{"pass": 1, "slots": []}', "line 1 cannot be read: tau is missing."),
        (race().split("\n", 1)[1], "a record begins with the settings of a run."),
        ("\n\n", "it has no forward"),
        (race().replace('"schema": 2', '"schema": 3'), "schema must be one of 1, 2."),
        (race().replace('"mode": "ar"', '"mode": "guess"'), "mode must be one of mars, lossless, ar, "),
        (
            race().replace('"accepted": 3', '"accepted": "<b>"'),
            "accepted must be a whole number from 0 to ",
        ),
        (race().replace('"score"', '"points"'), "slots[0].“points” is no field that it may have."),
    ],
)
def test_a_file_that_is_no_record_gets_a_sentence_and_nothing_is_lost(look, text, sentence):
    page = look()
    before = page.locator(".lanes").inner_text()
    give(page, text)
    expect(page.locator(".trouble")).to_contain_text("This is not the record of a run")
    expect(page.locator(".trouble")).to_contain_text(sentence)
    assert page.locator(".lanes").inner_text() == before


def test_a_single_run_from_the_command_line_can_be_opened(look):
    page = look(file=file_of(run("mars", [1, 3, 2, 4], [0.95] * 4)))
    expect(page.locator(".lane")).to_have_count(1)
    expect(page.locator(".verdict")).to_have_text("MARS: 10 tokens in 4 forwards, 2.5 per forward.")


def test_the_picture_is_real_svg_with_the_text_in_it(look):
    page = look()
    with page.expect_download() as download:
        page.locator('[data-do="svg"]').click()
    picture = ElementTree.fromstring(download.value.path().read_text("utf-8"))
    texts = [node.text for node in picture.iter("{http://www.w3.org/2000/svg}text")]
    for word in WORDS[:9]:
        assert f" {word}" in texts
    assert any("same answer" in text for text in texts)
    assert not list(picture.iter("{http://www.w3.org/2000/svg}foreignObject"))


def test_the_picture_is_a_png_of_twice_the_size(look):
    page = look()
    with page.expect_download() as download:
        page.locator('[data-do="png"]').click()
    data = download.value.path().read_bytes()
    assert data.startswith(b"\x89PNG")
    width = int.from_bytes(data[16:20], "big")
    assert width == pytest.approx(2 * (page.locator(".stage").bounding_box()["width"] + 48), abs=4)


def test_a_link_opens_the_same_recorded_run_at_the_same_forward(look, visit):
    page = look(file=None)
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("run=.*pass=3|pass=3.*run="))
    words = caption(page).inner_text()
    again = visit(page.url.split("?")[1], page.url.split("?")[0])
    expect(caption(again)).to_have_text(words)
    expect(shown(again, "mars")).to_have_count(3)


# ------------------------------------------------------------------------------------ appearance


def test_every_text_is_drawn_as_it_is(look):
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
    runs = run("ar", [1] * 10, words=words), run("mars", [1, 3, 2, 4], [0.9] * 4, words=words)
    page = look(file=file_of(*runs))
    expected = "".join(f" {word}" for word in words[:9])
    for name in ("ar", "mars"):
        assert lane(page, name).locator(".answer").text_content() == expected
    assert page.locator(".stage script, .stage img").count() == 0


def test_light_and_dark_have_their_own_colours(look):
    colours = []
    for theme in ("light", "dark"):
        page = look(f"__theme={theme}", None)
        style = (
            "node => (style => [style.color, style.getPropertyValue('--hue-0')])(getComputedStyle(node))"
        )
        colours.append(page.locator(".stage").evaluate(style))
    assert colours[0][0] != colours[1][0]
    assert colours[0][1] != colours[1][1]


def test_talk_view_hides_the_prose_doubles_the_type_and_keeps_the_keys(look):
    usual, talk = look(), look("view=talk")
    size = "node => parseFloat(getComputedStyle(node).fontSize)"
    ratio = talk.locator(".name").first.evaluate(size) / usual.locator(".name").first.evaluate(size)
    assert ratio == pytest.approx(2, abs=0.1)
    expect(talk.locator(".definition")).to_be_hidden()
    talk.keyboard.press("Home")
    expect(shown(talk, "mars")).to_have_count(0)


@pytest.mark.parametrize("width", [390, 768, 1440, 1920])
def test_nothing_is_wider_than_the_page(look, width):
    page = look()
    page.set_viewport_size({"width": width, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_reduced_motion_stills_the_tokens(look):
    page = look(reduced_motion="reduce")
    assert page.locator(".pass").first.evaluate("n => getComputedStyle(n).animationName") == "none"


def test_an_empty_stage_says_what_its_page_says(visit):
    with gr.Blocks() as demo:
        Stage(shelf=False, empty="Press Train: <b>watch</b> ${1+1} {{1+1}}")
        Stage(shelf=False, elem_id="usual")
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True)
    page = visit(address=address)
    expect(page.locator("#stage .verdict")).to_have_text("Press Train: <b>watch</b> ${1+1} {{1+1}}")
    expect(page.locator("#usual .verdict")).to_contain_text("Press Run:")
    demo.close()


# -------------------------------------------------------------------- answers longer than their room

PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1440, "height": 900}
LONG = [f"word{n}" for n in range(240)]


def long_race() -> list[str]:
    """The lines of a race as it went, of an answer that no box has room for."""
    runs = {
        "ar": run("ar", [1] * 240, words=LONG),
        "mars": run("mars", [3] * 80, [0.9] * 80, words=LONG),
    }
    again = {lane: Run(single.settings, iter(single.passes)) for lane, single in runs.items()}
    return list(record(again, lambda: False))


def in_view(token: Locator) -> bool:
    """Whether a token is in view within its answer."""
    return token.evaluate("""node => {
      const [box, frame] = [node, node.closest(".answer")].map((one) => one.getBoundingClientRect());
      return box.top > frame.top - 2 && box.bottom < frame.bottom + 2;
    }""")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_long_answer_follows_its_head_and_ends_at_its_start(visit, size):
    lines = long_race()
    values = ["".join(lines[:end]) for end in (150, 250, len(lines))]
    with gr.Blocks() as demo:
        stage = Stage(values[0])
        for number, value in enumerate(values):
            button = gr.Button(f"value {number}")
            button.click(lambda value=value: value, None, stage, show_progress="hidden")
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True)
    page = visit(address=address, viewport=size)
    reading, tokens = lane(page, "ar").locator(".reading"), lane(page, "ar").locator(".token")
    to_top = lane(page, "ar").get_by_role("button", name="From the start")

    expect(reading).to_have_class("reading above")  # it runs: its head is seen, a fade says there is more
    assert in_view(tokens.last)
    before = tokens.count()
    page.get_by_role("button", name="value 1").click()
    expect(tokens).not_to_have_count(before)
    assert in_view(tokens.last)
    to_top.click()
    expect(reading).to_have_class("reading below")
    expect(to_top).to_be_hidden()
    assert in_view(tokens.first)
    small = reading.bounding_box()["height"]

    page.get_by_role("button", name="value 2").click()
    expect(tokens).to_have_count(240)
    for name in ("ar", "mars"):  # it has ended: more room, and from the start
        expect(lane(page, name).locator(".reading")).to_have_class("reading below")
        assert in_view(lane(page, name).locator(".token").first)
    assert 1.5 * small < reading.bounding_box()["height"] < 0.65 * size["height"]

    strip = lane(page, "ar").locator(".strip")
    box = strip.bounding_box()
    strip.click(position={"x": 0.3 * box["width"], "y": box["height"] - 8})
    expect(shown(page, "mars")).not_to_have_count(80)
    for name in ("ar", "mars"):  # a replay follows its head again
        assert in_view(shown(page, name).last.locator(".token").last)
    page.keyboard.press("Space")
    expect(page.locator(".stage")).to_have_class(re.compile("replaying"))
    lanes = [lane(page, name).bounding_box()["height"] for name in ("ar", "mars")]
    assert size == DESKTOP or sum(lanes) < PHONE["height"]  # on a phone a race fits one screen
    page.keyboard.press("Space")
    page.keyboard.press("End")
    for name in ("ar", "mars"):
        expect(lane(page, name).locator(".reading")).to_have_class("reading below")
        assert in_view(lane(page, name).locator(".token").first)
    whole_in_pictures(page)
    demo.close()


def whole_in_pictures(page: Page) -> None:
    """Both pictures hold each word of both answers, none cut off, and leave the page as it was."""
    scrolled = (
        "[...document.querySelectorAll('.answer')].map((node) => [node.scrollTop, node.clientHeight])"
    )
    before = page.evaluate(scrolled)
    with page.expect_download() as download:
        page.locator('[data-do="svg"]').click()
    picture = ElementTree.fromstring(download.value.path().read_text("utf-8"))
    assert page.evaluate(scrolled) == before
    left, top, width, height = map(float, picture.get("viewBox").split())
    svg = "{http://www.w3.org/2000/svg}"
    clips = {
        clip.get("id"): {key: float(clip[0].get(key)) for key in ("y", "height")}
        for clip in picture.iter(f"{svg}clipPath")
    }
    seen = []

    def walk(node, down, room):
        moved = re.match(r"translate\(0 (.+)\)", node.get("transform", ""))
        down += float(moved[1]) if moved else 0
        if clip := node.get("clip-path"):
            clip = clips[clip[len("url(#") : -1]]
            room = (clip["y"] + down, clip["y"] + clip["height"] + down)
        if node.tag == f"{svg}text":
            y = float(node.get("y")) + down
            if room[0] <= y <= room[1]:
                seen.append(node.text)
        for child in node:
            walk(child, down, room)

    walk(picture, 0.0, (top, top + height))
    found = Counter(" ".join(seen).split())
    assert [word for word in LONG[:-1] if found[word] < 2] == []
    with page.expect_download() as download:
        page.locator('[data-do="png"]').click()
    data = download.value.path().read_bytes()
    assert [int.from_bytes(data[at : at + 4], "big") for at in (16, 20)] == [2 * width, 2 * height]


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_recorded_answer_is_there_as_a_whole(look, size):
    page = look("run=weekday", None, viewport=size)
    expect(page.locator(".note")).to_contain_text("Counting days")
    expect(page.locator(".stage")).to_have_class(re.compile("over"))
    for name in ("ar", "mars", "lossless"):
        answer = lane(page, name).locator(".answer")
        assert answer.evaluate("node => node.scrollHeight - node.clientHeight") <= 0
        assert in_view(answer.locator(".token").first)
        expect(lane(page, name).get_by_role("button", name="From the start")).to_be_hidden()


# --------------------------------------------------------------------------------- the first screen


@pytest.fixture
def first_screen(visit, tmp_path, monkeypatch):
    """Open a page whose first recording takes a hundred seconds: its replay can be met on the way."""
    slow = re.sub(r'"ms": \d+\.0', '"ms": 10000.0', race())
    (tmp_path / "slow.jsonl").write_text(slow, "utf-8")
    entry = {"id": "slow", "title": "Slow", "note": "", "prompt": "Say it"}
    (tmp_path / "index.json").write_text(json.dumps([entry]), "utf-8")
    monkeypatch.setattr(recordings, "FOLDER", tmp_path)
    with gr.Blocks() as demo:
        gr.Textbox(elem_id="prompt")
        Stage()
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True, **LOOK)

    def open_page(query: str = "", motion: str = "no-preference") -> Page:
        page = visit(query, address, reduced_motion=motion)
        expect(page.locator(".token").first).to_be_attached()
        return page

    yield open_page
    demo.close()


def test_the_first_screen_replays_until_a_visitor_does_something(first_screen):
    page = first_screen()
    play, future = page.locator(".play"), page.locator(".pass.future")
    expect(page.locator(".hint")).to_have_text(
        "Each colour is one forward pass. Press Run to race the model live."
    )
    expect(play).to_have_text("⏸ Pause")
    expect(future).not_to_have_count(0)
    page.locator("#prompt textarea").press_sequentially("Hi there")
    expect(play).to_have_text("▶ Play")
    expect(future).to_have_count(0)

    page.reload()
    expect(play).to_have_text("⏸ Pause")
    play.click()  # its own controls do what they say
    expect(play).to_have_text("▶ Play")
    expect(future).not_to_have_count(0)
    play.click()
    expect(play).to_have_text("⏸ Pause")
    page.locator(".verdict").click()  # what a visitor has started is not ended by a click
    expect(play).to_have_text("⏸ Pause")

    page.reload()
    expect(play).to_have_text("⏸ Pause")
    expect(shown(page, "mars")).to_have_count(0)
    page.keyboard.press("ArrowRight")
    expect(shown(page, "mars")).to_have_count(1)
    expect(play).to_have_text("▶ Play")


def test_the_first_screen_replays_once(first_screen):
    page = first_screen()
    play = page.locator(".play")
    expect(play).to_have_text("⏸ Pause")
    page.evaluate(  # the next frame comes much later
        """() => {
          const frame = requestAnimationFrame;
          window.requestAnimationFrame = (draw) => frame((time) => draw(time + 200_000));
        }"""
    )
    expect(play).to_have_text("▶ Play")
    expect(page.locator(".pass.future")).to_have_count(0)


def test_nothing_moves_where_a_forward_is_asked_for_or_motion_is_not_wanted(first_screen):
    still = first_screen(motion="reduce")
    at = first_screen("run=slow&lane=mars&pass=2")
    expect(caption(at)).to_contain_text("Forward 2:")
    for page, future in ((still, 0), (at, 10)):
        # A replay would have begun by the second frame after the stage has been seen.
        page.evaluate(
            """() => new Promise((done) => {
              const twice = () => requestAnimationFrame(() => requestAnimationFrame(done));
              new IntersectionObserver(twice).observe(document.querySelector(".lane"));
            })"""
        )
        expect(page.locator(".play")).to_have_text("▶ Play")
        expect(page.locator(".pass.future")).to_have_count(future)
