"""The Batch tab in a real browser: small batches of the bundled model, really run."""

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Page, expect
from test_page import race, to_the_end

from mars_demo.decoding.request import Request
from mars_demo.evaluation import load_test, results
from mars_demo.ui.tabs import batch


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where the tab looks for results: what has been measured so far does not matter to the tests."""
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    return tmp_path


@pytest.fixture
def open_tab(visit):
    def open_it() -> Page:
        page = visit()
        page.get_by_role("tab", name="Batch").click()
        expect(page.locator("#batch-paper table")).to_be_visible()
        return page

    return open_it


def schedule(page: Page, number: int):
    return page.locator("#batch-schedule .one").nth(number)


def forwards(page: Page, number: int) -> int:
    text = schedule(page, number).locator(".figures").inner_text()
    return int(re.match(r"(\d+) forwards, [\d,]+ positions, [\d.]+ s, \d+% waiting", text)[1])


def record(folder, checkpoint) -> None:
    """What `benchmarks.load` writes, of a few requests."""
    traces = []
    for number, trace in enumerate(load_test.loads(1.0), start=2):
        serving = load_test.serve(checkpoint, 0.95, [0.02 * n for n in range(number)])
        with ThreadPoolExecutor() as beside:  # the browser's event loop runs in this thread
            answered, server = beside.submit(asyncio.run, serving).result()
        found = load_test.measured([(answered, server)]) | {"picture": load_test.drawn(answered, server)}
        traces += [{"trace": trace, "policy": policy} | found for policy in load_test.POLICIES]
    record = {"command": "python -m benchmarks.load", "machine": "mars-tiny, 2 CPU threads", "seeds": [1]}
    record |= {"capacity": 8.0, "size": load_test.SIZE, "traces": traces}
    (folder / "load.json").write_text(json.dumps(record))


def test_the_address_opens_the_tab_and_a_picture_is_there(visit):
    page = visit("tab=batch")
    expect(page.get_by_role("tab", name="Batch")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#batch-schedule .one")).to_have_count(2)
    for state in ("compute", "wait", "commit", "free"):
        expect(schedule(page, 0).locator(f'[data-state="{state}"]').first).to_be_visible()
    expect(schedule(page, 1).locator('[data-state="wait"]')).to_have_count(0)
    expect(page.locator("#batch-said")).to_contain_text("five recorded runs")
    expect(page.locator("#batch-paper")).to_contain_text("241.9, 1.71×")


def test_a_run_fills_both_schedules_and_the_cursor_waits_for_nobody(open_tab):
    page = open_tab()
    page.locator("#cache-block input[type=range]").fill("8")
    page.locator("#batch-size input[type=range]").fill("3")
    page.locator("#batch-run").click()
    expect(page.locator("#batch-said")).to_contain_text("6 of 6 answers are the same with both caches")
    expect(schedule(page, 0).locator(".title")).to_contain_text("Block cache, 8 positions")
    expect(schedule(page, 1).locator('[data-state="wait"], [data-state="commit"]')).to_have_count(0)
    for number in (0, 1):
        expect(schedule(page, number).locator(".cells")).to_have_count(3)
        expect(schedule(page, number).locator(".begins")).to_have_count(6)
    assert forwards(page, 1) < forwards(page, 0)
    schedule(page, 0).locator('[data-state="wait"]').first.hover()
    expect(page.locator("#batch-schedule .sentence")).to_contain_text(
        re.compile(r"Step \d+, row \d: waits – \w")
    )
    page.locator("#batch-schedule .playhead").fill("1")
    expect(schedule(page, 0).locator(".figures")).to_contain_text("1 forward,")


def test_a_run_can_be_stopped_and_begun_again(open_tab, slow):
    page = open_tab()
    page.locator("#batch-run").click()
    expect(page.locator("#batch-run")).to_be_disabled()
    expect(page.locator("#batch-schedule .cells")).to_have_count(6)
    page.locator("#batch-stop").click()
    expect(page.locator("#batch-said")).to_have_text("Stopped.")
    expect(page.locator("#batch-run")).to_be_enabled()
    page.locator("#batch-run").click()
    expect(page.locator("#batch-said")).to_contain_text("answers are the same")


def test_what_cannot_run_gets_a_sentence(open_tab, monkeypatch):
    monkeypatch.setattr(batch, "MAX_NEW_TOKENS", 0)
    page = open_tab()
    page.locator("#batch-run").click()
    expect(page.get_by_test_id("toast-body")).to_contain_text("max_new_tokens must be at least 1")
    expect(page.locator("#batch-run")).to_be_enabled()
    expect(page.locator("#batch-schedule .one")).to_have_count(2)


def test_the_methods_are_measured_row_by_row(open_tab, monkeypatch):
    monkeypatch.setattr(batch, "MEASURED", 4)
    page = open_tab()
    expect(page.locator("#batch-here")).to_contain_text("python -m benchmarks.batches")
    page.locator("#measured-size").get_by_role("radio", name="4").check()
    page.locator("#measure-run").click()
    rows = page.locator("#batch-here tbody tr")
    expect(page.locator("#batch-here")).to_contain_text("8 held-out prompts, one run of each method")
    expect(rows.filter(has_text="lossless")).to_be_visible()
    expect(rows.filter(has_text="AR, continuous")).to_contain_text("1.00×")
    expect(page.locator("#measure-run")).to_be_enabled()
    expect(rows.first).to_contain_text("transformers generate")


def test_measuring_shows_how_far_it_is_and_can_be_stopped_within_a_method(open_tab, monkeypatch):
    monkeypatch.setattr(batch, "MEASURED", 96)
    page = open_tab()
    page.locator("#measured-size").get_by_role("radio", name="4").check()
    page.locator("#measure-run").click()
    here = page.locator("#batch-here")
    expect(here).to_contain_text(re.compile("Now: AR, static, \\d+ of 96 prompts answered."))
    page.locator("#measure-stop").click()
    expect(here).to_contain_text("Stopped.")
    expect(page.locator("#measure-run")).to_be_enabled()
    expect(here.locator("tbody tr").first).to_contain_text("transformers generate")
    expect(here.locator("tbody tr")).to_have_count(1)


def test_a_race_goes_on_while_somebody_measures_and_another_measuring_waits(visit, open_tab, monkeypatch):
    monkeypatch.setattr(batch, "MEASURED", 480)
    one, two = open_tab(), open_tab()
    one.locator("#measure-run").click()
    expect(one.locator("#batch-here")).to_contain_text("Now:")
    two.locator("#measure-run").click()
    expect(two.locator("#measure-place")).to_contain_text("One long run is ahead of yours: about ")
    racing = visit("prompt=story&mode=mars&tau=0")
    race(racing)
    to_the_end(racing)
    expect(one.locator("#measure-stop")).to_be_enabled()
    one.close()  # nobody stopped it
    expect(two.locator("#batch-here")).to_contain_text("Now:")
    two.locator("#measure-stop").click()
    expect(two.locator("#measure-run")).to_be_enabled()


def test_recorded_replays_are_there_at_once_and_a_trace_can_be_chosen(open_tab, folder, mars_tiny):
    record(folder, mars_tiny)
    page = open_tab()
    expect(page.locator("#load-plot .main-svg").first).to_be_visible()
    for number, trace in enumerate(load_test.loads(1.0), start=2):
        page.locator("#trace").get_by_role("radio", name=trace).check()
        cells = page.locator("#load-numbers tbody tr td:nth-child(2)")
        expect(cells).to_have_text([str(number)] * 3)
    expect(page.locator("#load-numbers")).to_contain_text("load 1 is 8.0 requests per second")


def test_a_trace_is_replayed_here(open_tab, monkeypatch):
    """However slow the machine is, some requests arrive within the second."""
    measured = load_test.capacity

    async def capacity(*settings):
        return max(8.0, await measured(*settings))

    monkeypatch.setattr(load_test, "capacity", capacity)
    monkeypatch.setattr(batch, "SECONDS", 1)
    monkeypatch.setattr(batch, "AT_ONCE", 8)
    page = open_tab()
    expect(page.locator("#load-numbers")).to_contain_text("python -m benchmarks.load")
    page.locator("#replay-run").click()
    expect(page.locator("#load-numbers tbody tr")).to_have_count(3)
    expect(page.locator("#load-numbers")).to_contain_text("measured on this page")
    expect(page.locator("#load-plot .main-svg").first).to_be_visible()
    expect(page.locator("#replay-run")).to_be_enabled()


def test_a_replay_ends_when_it_is_stopped_or_its_visitor_leaves(open_tab, monkeypatch):
    monkeypatch.setattr(batch, "SECONDS", 600)
    monkeypatch.setattr(batch, "AT_ONCE", 2)
    one, two = open_tab(), open_tab()
    one.locator("#replay-run").click()
    expect(one.locator("#load-numbers")).to_contain_text("Serving")
    one.locator("#replay-stop").click()
    expect(one.locator("#load-numbers")).to_have_text("Stopped.")
    expect(one.locator("#replay-run")).to_be_enabled()
    one.locator("#replay-run").click()
    expect(one.locator("#load-numbers")).to_contain_text("Serving")
    one.close()
    two.locator("#batch-run").click()
    expect(two.locator("#batch-said")).to_contain_text("answers are the same")


def test_a_phone_shows_the_tab_without_scrolling_sideways(open_tab):
    page = open_tab()
    page.set_viewport_size({"width": 390, "height": 844})
    expect(schedule(page, 1)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_answers_that_differ_are_counted(mars_tiny):
    from mars_demo.serving.decode_batch import decode_batch

    one, other = (
        decode_batch(
            mars_tiny, batch._prompts(3), Request(mode="mars", tau=0.9, max_new_tokens=limit)
        ).finish()
        for limit in (4, 200)
    )
    assert batch.verdict(one, one).startswith("3 of 3 answers")
    assert batch.verdict(one, other).startswith("0 of 3 answers")


def test_speeds_are_compared_once_ar_is_measured():
    from mars_demo.evaluation.throughput import BASELINE, Result

    before = Result("AR, static", 4, 2.0, 100, 10, 1000, 0.25)
    base = Result(BASELINE, 4, 1.0, 100, 10, 1000, 0.0)
    assert "|AR,static|50.0|–|10|1,000|25%|" in batch.measured([before]).replace(" ", "")
    assert "|AR,static|50.0|0.50×|10|1,000|25%|" in batch.measured([before, base]).replace(" ", "")
