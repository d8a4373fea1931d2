"""The Race tab in a real browser, on the bundled model."""

import itertools
import json
import re
import urllib.request
from dataclasses import replace
from itertools import pairwise
from statistics import median

import gradio as gr
import pytest
from playwright.sync_api import Locator, Page, expect
from records import file_of
from records import run as made_up
from unanswered import unanswered

from mars_demo.decoding.trace import Pass, Run, Settings, Slot, read_runs
from mars_demo.ui import api, controls, models
from mars_demo.ui.components.stage import Stage
from mars_demo.ui.racing import record
from mars_demo.ui.tabs.race import EXAMPLES
from mars_demo.views import recordings

PROMPTS = EXAMPLES["mars-tiny"]
STORY = next(example["prompt"] for example in PROMPTS if example["id"] == "story")
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "${alert(1)} ${1+1} `back` \\",
    "{{1+1}} {{#each value}}{{this}}{{/each}}",
    "</script><script>alert(1)</script>",
]


def lane(page: Page, name: str) -> Locator:
    return page.locator(f'.lane[data-lane="{name}"]')


def count(page: Page, name: str, figure: str) -> Locator:
    return lane(page, name).locator(f'[data-count="{figure}"]')


def verdict(page: Page) -> Locator:
    return page.locator(".verdict")


def race(page: Page) -> None:
    expect(page.locator("#model input")).not_to_have_value("")
    page.locator("#run").click()
    expect(page.locator(".note")).to_be_empty()  # what was recorded has made room
    expect(page.locator(".token").first).to_be_attached()


def to_the_end(page: Page) -> None:
    expect(verdict(page)).to_contain_text("one token at a time;")
    expect(page.locator("#run")).to_be_enabled()


def set_slider(page: Page, name: str, value: float) -> None:
    page.locator(f"#{name} input[type=range]").fill(str(value))


def set_tau(page: Page, tau: float) -> None:
    set_slider(page, "tau", tau)


def tau_of(page: Page, token: Locator) -> str:
    """The τ of the forward that accepted a token, as its window tells."""
    token.click()
    page.keyboard.press("Escape")
    token.click()
    number = token.evaluate("node => Number(node.dataset.pass) + 1")
    caption = page.locator(".window .caption")
    expect(caption).to_contain_text(f"Forward {number}:")
    return re.search(r"τ (\S+)", caption.inner_text())[1]


def give(page: Page, text: str) -> None:
    page.locator(".file").set_input_files(
        {"name": "run.jsonl", "mimeType": "application/x-ndjson", "buffer": text.encode()}
    )


def test_both_lanes_stream_to_a_verdict(visit):
    page = visit()
    race(page)
    expect(lane(page, "ar").locator(".token").first).to_be_attached()
    to_the_end(page)
    for name in ("ar", "mars"):
        tokens = lane(page, name).locator(".token").count()
        forwards = lane(page, name).locator(".pass").count()
        expect(count(page, name, "tokens")).to_have_text(str(tokens))
        expect(count(page, name, "forwards")).to_have_text(str(forwards))
        expect(count(page, name, "perForward")).to_have_text(f"{tokens / forwards:.2f}")
        expect(count(page, name, "perSecond")).to_have_text(re.compile(r"[1-9]\d*"))
    expect(count(page, "ar", "perForward")).to_have_text("1.00")
    expect(verdict(page)).to_have_text(
        re.compile(r"MARS: \d+ tokens? in \d+ forwards?, [\d.]+ per forward, [\d.]+× as fast as .+")
    )


def test_a_forward_has_one_colour_and_one_bracket_and_the_next_has_another(visit):
    page = visit("tau=0")
    race(page)
    to_the_end(page)
    passes = lane(page, "mars").locator(".pass")
    looks = passes.evaluate_all("nodes => nodes.map(n => getComputedStyle(n).backgroundImage)")
    assert len(looks) > 1
    assert all(one != following for one, following in pairwise(looks))
    assert passes.first.locator(".token").count() > 1  # many tokens under one bracket
    assert looks[0].count("linear-gradient") == 3  # two ticks and a line, seen without colour


def test_lossless_gives_the_answer_of_one_token_at_a_time(visit):
    page = visit("mode=lossless")
    race(page)
    to_the_end(page)
    expect(verdict(page)).to_contain_text("MARS, lossless:")
    expect(verdict(page)).to_contain_text("same answer")
    texts = [lane(page, name).locator(".answer").text_content() for name in ("ar", "lossless")]
    assert texts[0] == texts[1]


def test_three_lanes_race_at_once(visit):
    page = visit("mode=mars,lossless")
    race(page)
    to_the_end(page)
    expect(page.locator(".lane")).to_have_count(3)
    expect(page.locator(".verdict")).to_have_text(re.compile("MARS: .+ MARS, lossless: .+ same answer"))


def test_tau_acts_on_the_forwards_that_follow(visit, slow):
    page = visit("tau=1")
    race(page)
    set_tau(page, 0)
    expect(lane(page, "mars").locator(".setting")).to_contain_text("τ 0.00")
    to_the_end(page)
    tokens = lane(page, "mars").locator(".token")
    assert tau_of(page, tokens.first) == "1.00"
    assert tau_of(page, tokens.last) == "0.00"


@pytest.mark.slow
def test_two_visitors_have_their_own_tau_and_their_own_runs(visit, slow):
    one, two = visit("tau=1"), visit("tau=0.5&prompt=story")
    race(one)
    race(two)
    set_tau(two, 0)
    to_the_end(one)
    to_the_end(two)
    assert tau_of(one, lane(one, "mars").locator(".token").last) == "1.00"
    assert tau_of(two, lane(two, "mars").locator(".token").last) == "0.00"
    answers = [lane(page, "ar").locator(".answer").text_content() for page in (one, two)]
    assert answers[0] != answers[1]


def test_stop_ends_the_race_and_the_next_one_runs(visit, slow):
    page = visit("prompt=table&mode=mars&tau=1")  # twice as many forwards as tokens: time to stop
    expect(page.locator("#stop")).to_be_disabled()
    race(page)
    page.locator("#stop").click()
    expect(verdict(page)).to_contain_text("Stopped.")
    expect(page.locator("#stop")).to_be_disabled()
    race(page)
    to_the_end(page)


def test_what_starts_during_a_race_takes_its_place(visit, slow):
    """By a key: the button to run is off meanwhile. Two races at once would write into the same caches."""
    page = visit("prompt=table&mode=mars&tau=1&wait=1000")
    race(page)
    page.locator("#prompt textarea").fill(STORY)
    page.locator("#prompt textarea").press("Shift+Enter")
    expect(page.locator("#stage .prompt")).to_have_text(STORY)
    set_slider(page, "wait", 0)
    to_the_end(page)
    expect(page.locator("#stop")).to_be_disabled()
    expect(page.locator("#stage .prompt")).to_have_text(STORY)


def test_a_start_that_the_last_run_does_not_give_way_to_is_refused(visit, slow, monkeypatch):
    monkeypatch.setattr(controls, "PATIENCE", -1)
    page = visit("prompt=table&mode=mars&tau=1")
    race(page)
    page.locator("#prompt textarea").press("Shift+Enter")
    expect(page.get_by_test_id("toast-body")).to_contain_text("Your last run has not stopped yet")
    to_the_end(page)


def test_a_race_that_fails_says_so_and_the_next_one_runs(visit):
    calls = itertools.count()

    def fail(*_):
        if next(calls) == 9:
            raise RuntimeError("the device is gone")

    last = models.load().model.base_model.layers[-1]  # by then the layers before it have cached the forward
    hook = last.register_forward_pre_hook(fail)
    try:
        page = visit("prompt=table&mode=mars&tau=1")
        race(page)
        expect(page.get_by_test_id("toast-body")).to_contain_text("unexpected error")
    finally:
        hook.remove()
    expect(verdict(page)).to_contain_text("Stopped.")
    expect(page.locator("#stop")).to_be_disabled()
    race(page)
    to_the_end(page)


def test_a_click_on_stop_is_one_request(url):
    """Of several, the last may reach the server when the next run has begun, and would stop that."""
    with urllib.request.urlopen(f"{url}config") as response:
        page = json.load(response)
    stops = [part["id"] for part in page["components"] if part["props"].get("elem_id", "").endswith("stop")]
    targets = [target for event in page["dependencies"] for target in event["targets"]]
    assert len(stops) > 3
    assert sorted(block for block, event in targets if event == "click" and block in stops) == sorted(stops)


def test_what_a_visitor_types_stays_text(visit, monkeypatch):
    monkeypatch.setattr(api, "MAX_NEW_TOKENS", 16)  # what comes after the first tokens is no danger
    page = visit()
    for text in HOSTILE:
        page.locator("#prompt textarea").fill(text)
        race(page)
        to_the_end(page)
        expect(page.locator("#prompt textarea")).to_have_value(text)
        expect(page.locator("#stage .prompt")).to_have_text(text)
        expect(page.locator("#stage img, #stage script")).to_have_count(0)


def hostile_record() -> str:
    text = "\n  ".join(HOSTILE)
    slots = (
        Slot(1, text, 0.97, ((text, 0.97), ("\t<b>", 0.02))),
        Slot(2, "", 1.0, (("<|end|>", 1.0),)),
    )
    runs = {
        name: Run(
            Settings(name, "toy", 2, 1, 0.5, text, 3, "cpu", "float32", 256),
            iter([Pass(1, 0.5, 5, 10.0, 2, slots, "eos")]),
        )
        for name in ("ar", "mars")
    }
    return "".join(record(runs, lambda: False))


def test_what_a_model_writes_is_drawn_as_it_is(visit):
    """A recorded race on the stage: white space and markup are shown exactly, in answer and card."""
    with gr.Blocks() as demo:
        Stage(hostile_record())
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True)
    page = visit(address=address)
    answer = lane(page, "mars").locator(".answer")
    expect(verdict(page)).to_contain_text("same answer")
    assert answer.text_content() == "\n  ".join(HOSTILE)
    answer.locator(".token").first.hover()
    expect(page.locator(".card")).to_contain_text("<script>alert(1)</script>")
    expect(page.locator("#stage img, #stage script, :is(.answer, .card) b")).to_have_count(0)
    demo.close()


@pytest.mark.parametrize(
    ("prompt", "sentence"), [("   ", "prompt is empty"), ("<b>word</b> " * 1000, "can read at most")]
)
def test_bad_input_gets_a_sentence_and_nothing_is_lost(visit, prompt, sentence):
    page = visit()
    race(page)
    to_the_end(page)
    before = page.locator(".stage").inner_text()
    page.locator("#prompt textarea").fill(prompt)
    page.locator("#run").click()
    expect(page.get_by_test_id("toast-body")).to_contain_text(sentence)
    expect(page.locator("#run")).to_be_enabled()
    expect(page.locator("#prompt textarea")).to_have_value(prompt)
    assert page.locator(".stage").inner_text() == before
    page.locator("#prompt textarea").fill(STORY)
    race(page)
    to_the_end(page)


RECORDED = {entry["id"]: entry for entry in recordings.index() if entry["model"] == "mars-tiny"}


def shows(page: Page, id: str) -> None:
    """The stage has that recorded run, and all controls are as it was made."""
    entry = RECORDED[id]
    expect(page.locator(".note")).to_contain_text(entry["title"])
    expect(page.locator(".recordings")).to_have_value(id)
    expect(page.locator(".lane")).to_have_count(len(entry["modes"]))
    controls_are(page, entry["prompt"], f"{entry['tau'][0][1]:g}", entry["modes"])


def controls_are(page: Page, prompt: str, tau: str, modes: list[str]) -> None:
    expect(page.locator("#prompt textarea")).to_have_value(prompt)
    expect(page.locator("#tau input[type=number]")).to_have_value(tau)
    for mode in ("mars", "lossless"):
        expect(page.locator(f"#mode input[name={mode}]")).to_be_checked(checked=mode in modes)
    expect(page.locator("#model input")).to_have_value("mars-tiny")


def test_the_address_sets_the_controls(visit):
    page = visit("prompt=story&tau=0.6&mode=lossless&model=mars-tiny")
    controls_are(page, STORY, "0.6", ["lossless"])


def test_the_address_follows_the_controls_and_opens_the_same_page_again(visit, url):
    page = visit()
    page.locator("#prompt textarea").fill("Tell me & me = 50% of <b>it</b> #1?")
    set_tau(page, 0.4)
    page.locator("#mode input[name=lossless]").check()
    expect(page).to_have_url(re.compile("prompt=Tell.*lossless.*tau=0.4"))
    again = visit(page.url.split("?", 1)[1])
    controls_are(again, "Tell me & me = 50% of <b>it</b> #1?", "0.4", ["mars", "lossless"])


def test_the_first_screen_is_a_recorded_run_and_the_controls_that_made_it(visit):
    page = visit()
    shows(page, recordings.index()[0]["id"])
    expect(page.locator(".recordings option:checked")).not_to_have_text("choose…")
    expect(page.locator(".recordings option").first).to_be_disabled()


def test_a_chosen_recording_fills_the_controls_and_a_race_takes_its_place(visit):
    page = visit("prompt=letter&tau=0.6&mode=mars")
    expect(page.locator("#model input")).not_to_have_value("")
    expect(page.locator(".token")).to_have_count(0)  # no recording beside the controls of something else
    page.locator("#prompt textarea").fill("an edit that has not reached the address yet")
    page.locator(".recordings").select_option("lossless-lossy")
    shows(page, "lossless-lossy")
    expect(page).to_have_url(re.compile(r"\?run=lossless-lossy$"))
    page.reload()
    shows(page, "lossless-lossy")
    expect(page).to_have_url(re.compile(r"\?run=lossless-lossy$"))
    race(page)
    to_the_end(page)
    expect(page.locator(".prompt")).to_have_text(STORY)
    expect(lane(page, "mars").locator(".setting")).to_contain_text("τ 0.30")
    expect(page.locator(".lane")).to_have_count(3)
    expect(page.locator(".recordings option:checked")).to_have_text("choose…")
    expect(page).to_have_url(re.compile(r"\?prompt=story&mode=mars%2Clossless&tau=0.3&model=mars-tiny$"))


def test_a_chosen_recording_fills_the_controls_before_the_server_answers(visit):
    """Also where the model that was chosen a moment before has other modes."""
    page = visit("prompt=letter&tau=0.6&mode=mars&model=ar-tiny")
    expect(page.locator(".facts")).to_contain_text("jacobi")
    with unanswered(page):
        page.locator("#model input").click()
        page.get_by_role("option", name="mars-tiny").click()
        page.locator(".recordings").select_option("lossless-lossy")
        expect(page.locator("#prompt textarea")).to_have_value(STORY)
        expect(page.locator("#tau input[type=number]")).to_have_value("0.3")
        expect(page).to_have_url(re.compile(r"\?run=lossless-lossy$"))
    shows(page, "lossless-lossy")
    race(page)
    to_the_end(page)
    expect(page.locator(".lane")).to_have_count(3)
    expect(page).to_have_url(re.compile(r"\?prompt=story&mode=mars%2Clossless&tau=0.3&model=mars-tiny$"))


def test_a_recording_that_does_not_come_is_not_in_the_address(visit):
    page = visit("run=table")
    shows(page, "table")
    page.route("**/component_server/**", lambda route: route.abort())
    page.locator(".recordings").select_option("letter")
    expect(page.locator("#stage .trouble")).to_contain_text("did not send the recorded run")
    shows(page, "table")
    assert page.url.endswith("?run=table")


def test_no_value_of_a_control_is_dropped_while_another_is_answered(url):
    """Gradio's page does that with events by default."""
    with urllib.request.urlopen(f"{url}config") as response:
        page = json.load(response)
    asked = [event for event in page["dependencies"] if event["backend_fn"]]
    modes = [
        event["trigger_mode"]
        for event in asked
        for _, name in event["targets"]
        if name in ("input", "change")
    ]
    assert len(modes) > 3
    assert set(modes) == {"always_last"}


def test_an_edit_takes_the_recording_out_of_the_address(visit):
    page = visit("run=table")
    shows(page, "table")
    page.locator("#stage .lanes").click(position={"x": 2, "y": 2})
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("run=table&lane=mars&pass=1$"))
    page.locator("#prompt textarea").fill("I need the 3 times table")
    expect(page).to_have_url(
        re.compile(r"\?prompt=I\+need\+the\+3\+times\+table&mode=mars&tau=0.95&model=mars-tiny$")
    )
    page.locator('[data-do="step"]').click()  # on the recording, which the address no longer opens
    set_tau(page, 0.9)
    expect(page).to_have_url(re.compile("table&mode=mars&tau=0.9&model=mars-tiny$"))
    page.reload()
    controls_are(page, "I need the 3 times table", "0.9", ["mars"])
    expect(page.locator(".recordings option:checked")).to_have_text("choose…")


def test_slow_motion_is_in_the_address_too(visit):
    page = visit("run=table&wait=300")
    shows(page, "table")
    expect(page.locator("#wait input[type=number]")).to_have_value("300")
    set_slider(page, "wait", 100)
    expect(page).to_have_url(re.compile(r"run=table&wait=100$"))


def test_a_long_prompt_stays_out_of_the_address(visit):
    page = visit("prompt=story")
    controls_are(page, STORY, "0.95", ["mars", "lossless"])
    page.locator("#prompt textarea").fill("ä" * 310)  # six bytes each, encoded
    expect(page).to_have_url(re.compile("prompt=(%C3%A4){310}&"))
    page.locator("#prompt textarea").fill("ä" * 350)
    expect(page).to_have_url(re.compile(r"\?mode=mars%2Clossless&tau=0.95&model=mars-tiny$"))
    page.locator("#prompt textarea").fill("long " * 14_000)
    set_tau(page, 0.5)
    expect(page).to_have_url(re.compile(r"\?mode=mars%2Clossless&tau=0.5&model=mars-tiny$"))
    assert page.reload().ok
    controls_are(page, PROMPTS[0]["prompt"], "0.5", ["mars", "lossless"])


def test_a_prompt_outside_what_the_model_knows_is_said_to_be(visit):
    page = visit("prompt=hello&mode=mars")
    expect(page.locator("#model")).to_contain_text("twelve small worlds")
    page.get_by_role("button", name="Model card").click()
    expect(page.locator("#card")).to_contain_text("held-out")
    race(page)
    to_the_end(page)
    sentences = verdict(page).locator("span")
    expect(sentences.first).to_have_text(
        "This prompt seems to be outside what mars-tiny was trained on: the answer is likely nonsense. "
    )
    weights = sentences.evaluate_all("nodes => nodes.map(node => getComputedStyle(node).fontWeight)")
    assert weights[0] == "600" and set(weights[1:]) == {"400"}  # the speed of nonsense is no triumph
    page.get_by_role("button", name="Run the nearest example").click()
    expect(page.locator(".prompt")).not_to_have_text("hello")
    to_the_end(page)
    expect(verdict(page)).not_to_contain_text("outside")
    expect(page.locator("#prompt textarea")).to_have_value(page.locator(".prompt").inner_text())
    expect(page.get_by_role("button", name="Run the nearest example")).to_be_hidden()


def test_a_forward_that_took_far_too_long_is_said_to_have(visit):
    page = visit()
    mars = made_up("mars", [1] * 40, [0.95] * 40)  # 12 ms each
    expect(page.locator(".token").first).to_be_attached()
    for slow, ms, said in (
        (3, 400.0, True),
        (0, 400.0, False),  # the prefill is another kind of forward
        (3, 70.0, False),  # hardly matters in a run of half a second
    ):
        passes = [replace(p, ms=ms) if n == slow else p for n, p in enumerate(mars.passes)]
        give(page, file_of(made_up("ar", [1] * 10), Run(mars.settings, iter(passes)).finish()))
        expect(page.locator(".lane[data-lane=mars] rect").nth(slow)).to_be_attached()
        expect(verdict(page)).to_contain_text("per forward")
        sentence = "MARS: one forward took 400 ms, 33 times the median."
        if said:
            expect(verdict(page)).to_contain_text(sentence)
        else:
            expect(verdict(page)).not_to_contain_text("the median")


def test_slow_motion_waits_and_no_clock_counts_it(visit):
    """A forward takes a few milliseconds and rests for 400 after it: whether these are counted shows in the
    clock, in the speeds and in the record, on a machine twenty times as slow, too."""
    page = visit("tau=1&mode=mars")
    set_slider(page, "wait", 400)
    race(page)
    expect(page.locator(".lane.running")).to_have_count(2)
    expect(lane(page, "mars").locator(".pass").nth(2)).to_be_attached()
    set_slider(page, "wait", 0)  # live, too
    slow = {name: lane(page, name).locator(".pass").count() for name in ("ar", "mars")}
    to_the_end(page)
    with page.expect_download() as download:
        page.locator('[data-do="jsonl"]').click()
    runs = read_runs(download.value.path().read_text("utf-8").splitlines())
    rested = [step.ms for single in runs for step in single.passes[1 : slow[single.settings.mode]]]
    assert median(rested) < 200  # before each of them its side has rested
    for single in runs:
        speed = count(page, single.settings.mode, "perSecond").inner_text()
        assert float(speed) == pytest.approx(single.tokens / single.seconds, abs=1)
    clock = float(page.locator(".clock").inner_text().split()[0])
    assert clock == pytest.approx(max(single.seconds for single in runs), abs=0.06)


def test_a_run_again_takes_the_prompt_and_the_ghost_tau(visit):
    page = visit("prompt=story")
    race(page)
    to_the_end(page)
    page.locator("#prompt textarea").fill("something else")
    page.locator(".ghost-range").fill("0.3")
    page.locator('[data-do="again"]').click()
    expect(lane(page, "mars").locator(".setting")).to_contain_text("τ 0.30")
    expect(page.locator(".prompt")).to_have_text(STORY)
    to_the_end(page)
    expect(page.locator("#tau input[type=number]")).to_have_value("0.3")


def test_the_runs_of_a_visit_are_kept_to_compare(visit):
    page = visit("prompt=story&tau=1")
    race(page)
    to_the_end(page)
    expect(page.locator(".history tbody tr")).to_have_count(1)
    answer = lane(page, "mars").locator(".answer").text_content()
    page.get_by_role("button", name="Times table").click()
    race(page)
    to_the_end(page)
    rows = page.locator(".history tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("τ 1")
    expect(rows.nth(1)).to_contain_text("1.00")
    rows.nth(1).locator("button").click()
    expect(page.locator(".prompt")).to_have_text(STORY)
    assert lane(page, "mars").locator(".answer").text_content() == answer


def test_an_address_that_makes_no_sense_gives_the_usual_page(visit):
    page = visit("tau=nan&mode=%3Cb%3E&model=/etc/passwd")
    expect(page.locator("#prompt textarea")).to_have_value(PROMPTS[0]["prompt"])
    expect(page.locator("#tau input[type=number]")).to_have_value("0.95")
    expect(page.locator("#mode input[name=mars]")).to_be_checked()
    race(page)
    to_the_end(page)


def test_an_example_fills_the_prompt(visit):
    page = visit()
    page.get_by_role("button", name="Tiny story").click()
    expect(page.locator("#prompt textarea")).to_have_value(STORY)


def test_a_phone_shows_everything_without_scrolling_sideways(visit):
    page = visit()
    page.set_viewport_size({"width": 390, "height": 844})
    race(page)
    to_the_end(page)
    lane(page, "mars").locator(".token").first.hover()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    box = lane(page, "mars").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
