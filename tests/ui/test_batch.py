"""The Batch tab in a real browser, with small real batches of the bundled model."""

import re

import pytest
from acts import is_open, set_slider
from playwright.sync_api import Page, expect

SAME = re.compile(r"\b(\d+)\D+\1\b")  # all answers are the same


@pytest.fixture
def open_tab(visit):
    def open_it() -> Page:
        page = visit("tab=batch")
        is_open(page, "Batch")
        expect(page.locator("#batch-speeds table").first).to_be_visible()
        return page

    return open_it


def schedule(page: Page, number: int):
    return page.locator("#batch-schedule .one").nth(number)


def forwards(page: Page, number: int) -> int:
    figures = schedule(page, number).locator(".figures")
    expect(figures).to_have_text(re.compile(r"^\d+ \D+[\d,]+ \D+[\d.]+ s, \d+%"))
    return int(re.match(r"\d+", figures.inner_text())[0])


def test_a_run_replaces_recorded_schedules_and_the_cursor_cache_never_waits(open_tab):
    page = open_tab()
    expect(page.locator("#batch-schedule .one")).to_have_count(2)
    for state in ("compute", "wait", "commit", "free"):
        expect(schedule(page, 0).locator(f'[data-state="{state}"]').first).to_be_visible()
    expect(schedule(page, 1).locator('[data-state="wait"]')).to_have_count(0)
    expect(page.locator("#batch-speeds")).to_contain_text("241.9, 1.71×")

    set_slider(page, "cache-block", 8)
    set_slider(page, "batch-size", 3)
    page.locator("#batch-run").click()
    expect(page.locator("#batch-said")).to_contain_text(re.compile(r"\b6\D+6\b"))
    expect(schedule(page, 0).locator(".title")).to_contain_text("8")
    expect(schedule(page, 1).locator('[data-state="wait"], [data-state="commit"]')).to_have_count(0)
    for number in (0, 1):
        expect(schedule(page, number).locator(".cells")).to_have_count(3)
        expect(schedule(page, number).locator(".begins")).to_have_count(6)
    assert forwards(page, 1) < forwards(page, 0)
    waiting = schedule(page, 0).locator('[data-state="wait"]').first
    waiting.hover()
    expect(page.locator("#batch-schedule .sentence")).to_contain_text(re.compile(r"\d+\D+\d"))
    page.locator("#batch-schedule .playhead").fill("1")
    expect(schedule(page, 0).locator(".figures")).to_have_text(re.compile("^1 "))
    expect(page.locator("#batch-run")).to_be_enabled()


@pytest.mark.full
def test_a_run_can_be_stopped_and_restarted(open_tab, gate):
    page = open_tab()
    run = page.locator("#batch-run")
    run.click()
    gate.wait_until_held()
    expect(run).to_be_disabled()
    with page.expect_response(re.compile("gradio_api/run/")):
        page.locator("#batch-stop").click()
    gate.open()
    expect(run).to_be_enabled()
    expect(page.locator("#batch-said")).not_to_have_text(re.compile(r"\d"))
    expect(page.locator("#batch-schedule .cells")).to_have_count(6)  # of the first cache only
    run.click()
    expect(page.locator("#batch-said")).to_contain_text(SAME)
    expect(run).to_be_enabled()
