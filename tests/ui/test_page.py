"""The Race tab in a real browser, with the bundled tiny model."""

import itertools
import json
import re
from dataclasses import asdict
from itertools import pairwise

import httpx
import pytest
from acts import set_slider, unanswered
from playwright.sync_api import Page, expect
from race_tab import (
    count,
    dismiss,
    is_ready,
    lane,
    prompt,
    race,
    race_to_the_end,
    records,
    run_button,
    set_tau,
    stage,
    stop,
    taus,
    to_the_end,
    toast,
    verdict,
)

from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.show import about, recordings
from mars_demo.ui.examples import EXAMPLES
from mars_demo.ui.hosting.registry import MODELS

PROMPTS = EXAMPLES["mars-tiny"]
STORY, TABLE = (
    next(example["prompt"] for example in PROMPTS if example["id"] == name) for name in ("story", "table")
)
FIRST, MOST = 45_000, 150_000  # compressed bytes of the page, and with its config and component files
RECORDED = {entry["id"]: entry for entry in recordings.index() if entry["model"] == "mars-tiny"}


# ------------------------------------------------------------------------------------------- races


def test_three_lanes_stream_to_a_verdict(visit):
    page = visit("mode=mars,lossless&tau=0&prompt=story")
    race(page)
    for name in ("ar", "mars", "lossless"):
        expect(lane(page, name).locator(".token").first).to_be_attached()
    to_the_end(page)
    runs = records(page)
    assert runs["lossless"].text == runs["ar"].text
    for name, run in runs.items():
        assert run.stop in ("eos", "length")
        assert lane(page, name).locator(".answer").text_content() == run.text
        expect(lane(page, name).locator(".token")).to_have_count(run.tokens)
        expect(lane(page, name).locator(".pass")).to_have_count(run.forwards)
        expect(count(page, name, "tokens")).to_have_text(str(run.tokens))
        expect(count(page, name, "forwards")).to_have_text(str(run.forwards))
        expect(count(page, name, "perForward")).to_have_text(f"{run.tokens / run.forwards:.2f}")
        speed = float(count(page, name, "perSecond").text_content())
        assert speed == pytest.approx(run.tokens / run.seconds, abs=1)
    expect(count(page, "ar", "perForward")).to_have_text("1.00")
    for name in ("mars", "lossless"):
        factor = runs[name].tokens / runs[name].seconds / runs["ar"].tokens * runs["ar"].seconds
        shown = re.findall(r"([\d.]+)×", verdict(page).text_content())
        assert any(float(each) == pytest.approx(factor, abs=0.06) for each in shown), (factor, shown)

    passes = lane(page, "mars").locator(".pass")
    looks = passes.evaluate_all("nodes => nodes.map(n => getComputedStyle(n).backgroundImage)")
    assert len(looks) > 1
    assert all(one != following for one, following in pairwise(looks))
    assert runs["mars"].passes[0].accepted > 1  # several tokens in one bracket
    assert looks[0].count("linear-gradient") == 3  # two ticks and a line, visible without colour


def test_the_page_opens_with_three_lanes_and_one_click_leaves_two(visit):
    page = visit()
    is_ready(page)
    expect(page.locator("#stage .lane")).to_have_count(3)
    expect(page.locator("#tau")).to_contain_text("positions, not forwards")
    page.locator("#mode input[name=lossless]").click()
    expect(page).to_have_url(re.compile(r"mode=mars&"))
    race_to_the_end(page)
    assert list(records(page)) == ["ar", "mars"]


def test_stop_ends_a_race_and_the_next_start_replaces_one(visit, slow):
    """Start the next race with a key, because the button is disabled during a race."""
    page = visit("prompt=table&mode=mars&tau=1&watch=1")
    expect(page.locator("#stop")).to_be_disabled()
    race(page)
    stop(page)
    assert {run.stop for run in records(page).values()} == {"stopped"}
    race(page)
    expect(run_button(page)).to_be_disabled()
    prompt(page).fill(STORY)
    prompt(page).press("Enter")  # a new line, which starts nothing
    prompt(page).press("Backspace")
    race(page, press="Control+Enter")
    expect(page.locator("#stage .prompt")).to_have_text(STORY)
    page.locator("#watch input").uncheck()
    to_the_end(page)
    expect(page.locator("#stage .prompt")).to_have_text(STORY)


def test_advanced_settings_reach_every_side_and_its_link(visit, mars_tiny):
    """Use a window that only Jacobi can have: the others get their largest, AR always has 1."""
    query = "prompt=story&mode=mars%2Clossless%2Cjacobi&tau=1&model=mars-tiny"
    more = "window=12&max_new_tokens=24&temperature=0.8&top_p=0.9&seed=7"
    page = visit(f"{query}&{more}")
    expect(page.locator("#seed input")).to_have_value("7")
    race_to_the_end(page)
    expect(page).to_have_url(re.compile(f"{re.escape(f'{query}&{more}')}$"))
    runs, largest = records(page), mars_tiny.block_size + 1
    windows = {mode: run.settings.window for mode, run in runs.items()}
    assert windows == {"ar": 1, "mars": largest, "lossless": largest, "jacobi": 12}
    sampling = Sampling(0.8, top_p=0.9, seed=7)
    request = Request("ar", max_new_tokens=24, sampling=sampling)
    expected = decode(mars_tiny, STORY, request).finish().token_ids
    for run in runs.values():  # coupled, so that all sides sample the same answer
        assert run.settings.sampling == asdict(sampling)
        assert run.token_ids == expected

    set_slider(page, "window", 0)
    page.locator("#seed input").fill("0")
    expect(page).to_have_url(re.compile("&max_new_tokens=24&temperature=0.8&top_p=0.9$"))


def test_better_examples_are_one_press_away(visit):
    page = visit("run=story")
    is_ready(page)
    cause = page.locator("#stage .cause")
    expect(cause).to_contain_text(re.compile(r"The second slot reached τ in \d+ of \d+ forwards"))
    before = stage(page).get_attribute("data-run")
    cause.get_by_role("button", name="Times table").click()
    expect(prompt(page)).to_have_value(TABLE)
    assert stage(page).get_attribute("data-run") == before  # the visitor runs it


@pytest.mark.full
def test_a_failed_race_shows_a_message_and_the_next_one_runs(visit):
    calls = itertools.count()

    def fail(*_):
        if next(calls) == 9:
            raise RuntimeError("the device is gone")

    last = MODELS.load().model.base_model.layers[-1]  # earlier layers have cached the forward
    hook = last.register_forward_pre_hook(fail)
    try:
        page = visit("prompt=table&mode=mars&tau=1")
        race(page)
        expect(toast(page)).to_be_visible()
        expect(toast(page)).not_to_contain_text("the device is gone")  # only in the log
    finally:
        hook.remove()
    to_the_end(page, "stopped")
    race_to_the_end(page)


def test_bad_input_shows_a_message_and_nothing_is_lost(visit):
    page = visit("run=story")
    is_ready(page)
    before, answer = stage(page).get_attribute("data-run"), records(page)["mars"].text
    for text in ("   ", "<b>word</b> " * 1000):
        prompt(page).fill(text)
        run_button(page).click()
        expect(toast(page)).to_be_visible()
        dismiss(page)
        expect(run_button(page)).to_be_enabled()
        expect(prompt(page)).to_have_value(text)
        expect(stage(page)).to_have_attribute("data-run", before)
        expect(lane(page, "mars").locator(".answer")).to_have_text(answer)
    prompt(page).fill(STORY)
    race_to_the_end(page)


@pytest.fixture(scope="module")
def config(url):
    """Return the components and events that the server sends to a page."""
    return httpx.get(f"{url}config").json()


def test_a_click_on_stop_is_one_request(config):
    """Allow no second request: it could arrive after the next run has started, and stop that."""
    stops = [
        part["id"] for part in config["components"] if part["props"].get("elem_id", "").endswith("stop")
    ]
    targets = [target for event in config["dependencies"] for target in event["targets"]]
    assert len(stops) == 3
    assert sorted(block for block, event in targets if event == "click" and block in stops) == sorted(stops)


def test_no_value_of_a_control_is_dropped_during_a_request(config):
    """Require another trigger mode than Gradio's default, which drops values."""
    modes = [
        event["trigger_mode"]
        for event in config["dependencies"]
        if event["backend_fn"]
        and event["targets"]
        and {name for _, name in event["targets"]} <= {"input", "change"}
    ]
    assert len(modes) > 3
    assert set(modes) == {"always_last"}


def test_components_contain_only_plain_data(demo):
    """Allow no listener in the config: each visit would copy the objects that it refers to."""
    odd = []
    json.dumps(demo.get_config_file()["components"], default=lambda value: odd.append(type(value)))
    assert set(map(str, odd)) == {"<class 'function'>"}  # Gradio's function that deletes a state


def test_a_page_is_small_and_its_files_are_cached_by_browsers(url):
    asking = {"Accept-Encoding": "gzip"}
    page = httpx.get(url, headers=asking)
    size = int(page.headers["content-length"])
    assert size < FIRST
    files = set(re.findall(r"gradio_api/components/\w+\.(?:js|css)", page.text))
    assert sorted(name.rpartition(".")[2] for name in files) == ["css", "js"]
    for name in files:
        file = httpx.get(url + name, headers=asking)
        assert "immutable" in file.headers["cache-control"]
        assert file.headers["content-encoding"] == "gzip"
        assert httpx.get(url + name, headers={"Accept-Encoding": "identity"}).text == file.text
        size += int(file.headers["content-length"])
    config = httpx.get(f"{url}config", headers=asking)
    size += int(config.headers["content-length"])
    assert size < MOST
    icon = httpx.get(f"{url}favicon.ico")
    assert icon.headers["content-type"] == "image/svg+xml" and icon.text == about.ICON.read_text("utf-8")
    assert httpx.get(f"{url}gradio_api/components/other.js").status_code == 404


# ------------------------------------------------------------------------- recorded runs and the URL


def shows(page: Page, id: str) -> None:
    """Wait for a recorded run on the stage, with its settings in all controls."""
    entry = RECORDED[id]
    expect(page.locator("#stage .note")).to_contain_text(entry["title"])
    expect(page.locator("#stage .recordings")).to_have_value(id)
    expect(page.locator("#stage .lane")).to_have_count(len(entry["modes"]))
    controls_are(page, entry["prompt"], f"{entry['tau'][0][1]:g}", entry["modes"])


def controls_are(page: Page, text: str, tau: str, modes: list[str]) -> None:
    expect(prompt(page)).to_have_value(text)
    expect(page.locator("#tau input[type=number]")).to_have_value(tau)
    for mode in ("mars", "lossless"):
        expect(page.locator(f"#mode input[name={mode}]")).to_be_checked(checked=mode in modes)
    expect(page.locator("#model input")).to_have_value("mars-tiny")


def test_the_url_sets_the_controls_and_follows_them(visit):
    page = visit("prompt=story&tau=0.6&mode=lossless&model=mars-tiny&watch=1")
    controls_are(page, STORY, "0.6", ["lossless"])
    expect(page.locator("#watch input")).to_be_checked()
    odd = "Tell me & me = 50% of <b>it</b> #1?"
    prompt(page).fill(odd)
    set_tau(page, 0.4)
    page.locator("#mode input[name=mars]").check()
    page.locator("#watch input").uncheck()
    expect(page).to_have_url(
        re.compile("(?=.*prompt=Tell)(?=.*mode=mars%2Clossless)(?=.*tau=0.4)(?!.*watch)")
    )
    page.reload()
    controls_are(page, odd, "0.4", ["mars", "lossless"])
    prompt(page).fill("ä" * 350)  # too long: six bytes each when encoded
    expect(page).to_have_url(re.compile(r"^(?!.*prompt=).*tau=0.4&"))


def test_a_chosen_recording_fills_the_controls_before_the_server_answers_and_a_race_replaces_it(visit):
    """Start from a model with other modes, and from an edit that is not in the URL yet."""
    page = visit("prompt=letter&tau=0.6&mode=mars&model=ar-tiny")
    expect(page.locator("#facts")).to_contain_text("jacobi")
    expect(page.locator("#stage .token")).to_have_count(0)  # no recording with other settings
    expect(page.locator("#stage .recordings option").first).to_be_disabled()
    with unanswered(page):
        page.locator("#model input").click()
        page.get_by_role("option", name="mars-tiny").click()
        prompt(page).fill("an edit")
        page.locator("#stage .recordings").select_option("lossless-lossy")
        expect(prompt(page)).to_have_value(STORY)
        expect(page.locator("#tau input[type=number]")).to_have_value("0.3")
        expect(page).to_have_url(re.compile(r"\?run=lossless-lossy$"))
    shows(page, "lossless-lossy")
    race_to_the_end(page)
    expect(page.locator("#stage .prompt")).to_have_text(STORY)
    assert taus(records(page)["mars"])[0] == 0.3
    expect(page.locator("#stage .lane")).to_have_count(3)
    expect(page.locator("#stage .recordings")).to_have_value("")
    expect(page).to_have_url(re.compile(r"\?prompt=story&mode=mars%2Clossless&tau=0.3&model=mars-tiny$"))


def test_a_link_with_unknown_names_opens_the_page_without_them_and_says_so(visit):
    page = visit("run=gone&model=<b>model</b>&mode=fast&tab=shop&pass=3&chapter=0")
    shows(page, recordings.index()[0]["id"])
    expect(toast(page)).to_contain_text("tab and run and model and mode and chapter")
    expect(toast(page)).not_to_contain_text("gone")
    expect(page).to_have_url(re.compile("/$"))
    page.goto(f"{page.url}?mode=mars,fast&tau=0.5&prompt=story")
    controls_are(page, STORY, "0.5", ["mars"])
    expect(page.locator("#stage .lane")).to_have_count(0)  # the visitor runs it
    expect(verdict(page)).to_contain_text("Press Run")


@pytest.mark.full
def test_an_edit_removes_the_recording_from_the_url_and_a_missing_one_is_not_added(visit):
    page = visit("run=table")
    shows(page, "table")
    page.route("**/component_server/**", lambda route: route.abort())
    page.locator("#stage .recordings").select_option("letter")
    expect(page.locator("#stage .error")).to_be_visible()
    shows(page, "table")
    expect(page).to_have_url(re.compile(r"\?run=table$"))
    page.unroute_all()

    page.locator("#stage .lanes").click(position={"x": 2, "y": 2})
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("run=table&lane=mars&pass=1$"))
    prompt(page).fill("I need the 3 times table")
    expect(page).to_have_url(
        re.compile(r"\?prompt=I\+need\+the\+3\+times\+table&mode=mars&tau=0.95&model=mars-tiny$")
    )
    page.locator('#stage [data-do="step"]').click()  # not in the URL any more
    set_tau(page, 0.9)
    expect(page).to_have_url(re.compile("table&mode=mars&tau=0.9&model=mars-tiny$"))
    page.reload()
    controls_are(page, "I need the 3 times table", "0.9", ["mars"])
    expect(page.locator("#stage .recordings")).to_have_value("")


# ------------------------------------------------------------------------------------- the stage


@pytest.mark.full
def test_a_run_can_be_repeated_at_a_tried_tau(visit):
    page = visit("prompt=story&tau=1&mode=mars&window=3&temperature=0.5&seed=2")
    race_to_the_end(page)
    first = records(page)["mars"]

    page.locator("#stage .ghost-range").fill("0.3")
    page.locator("#seed input").fill("5")
    page.locator("#examples button", has_text="Times table").click()
    expect(prompt(page)).not_to_have_value(STORY)
    before = stage(page).get_attribute("data-run")
    page.locator('#stage [data-do="again"]').click()
    expect(stage(page)).not_to_have_attribute("data-run", before)
    to_the_end(page)
    second = records(page)["mars"]
    assert second.settings.prompt == STORY and set(taus(second)) == {0.3}
    assert second.settings.window == 3 and second.settings.sampling == first.settings.sampling
    expect(page.locator("#seed input")).to_have_value("2")
    expect(page.locator("#tau input[type=number]")).to_have_value("0.3")


def test_a_phone_shows_everything_without_scrolling_sideways(visit):
    page = visit("mode=mars", viewport={"width": 390, "height": 844})
    is_ready(page)
    paper = page.get_by_role("link", name="Paper: arXiv 2604.07023")
    expect(paper).to_have_attribute("href", "https://arxiv.org/abs/2604.07023")
    selectors = ("#prompt", "#examples", "#run", "#stage", "#model", "#advanced")
    tops = [page.locator(selector).bounding_box()["y"] for selector in selectors]
    assert tops == sorted(tops)
    assert page.locator("#examples").bounding_box()["height"] < 60  # one line
    field = page.get_by_label("Prompt", exact=True)
    assert field.evaluate("field => field.scrollHeight <= field.clientHeight")  # its end is in view
    race_to_the_end(page)
    lane(page, "mars").locator(".token").first.hover()
    expect(page.locator("#stage .card")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    box = lane(page, "mars").evaluate("lane => lane.getBoundingClientRect().toJSON()")
    assert box["left"] >= 0 and box["right"] <= 390

    # What was pressed far below the heading says there why it failed, or shows the heading.
    page.locator("#stage .tools").scroll_into_view_if_needed()
    page.locator("#stage .file").set_input_files(
        {"name": "run.jsonl", "mimeType": "text/plain", "buffer": b"no record"}
    )
    expect(page.locator("#stage .error")).to_be_in_viewport()
    expect(page.locator("#stage .file")).to_be_in_viewport()
    page.locator("#stage .recordings").select_option("table")
    expect(page.locator("#stage .error")).to_be_hidden()
    expect(verdict(page)).to_be_in_viewport()
