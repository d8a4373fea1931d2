"""Visitors of a hosted app: queue, limits, retained data, and the API page."""

import contextlib
import io
import re

import httpx
import pytest
from playwright.sync_api import Page, expect
from race_tab import dismiss, is_ready, race, race_to_the_end, run_button, stage, stop, to_the_end, toast
from web import until

from mars_demo.ui.page import build

pytestmark = pytest.mark.full

ENDLESS = "prompt=table&tau=1&mode=mars&watch=1"  # with `slow`


@pytest.fixture(scope="module")
def one_place(url):
    """Run an app that allows one race at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARS_DEMO_RACES", "1")
        demo = build()
        demo.launch(prevent_thread_lock=True, quiet=True)
    yield demo
    demo.close()


def waits(page: Page, place: str) -> None:
    """Press Run and wait for a position in the queue."""
    is_ready(page)
    run_button(page).click()
    expect(page.locator("#prompt")).to_contain_text(re.compile(rf"\b{place}\b"))


def test_a_visitor_watches_a_race_until_they_switch_it_off(visit, slow, one_place):
    page = visit("prompt=table&tau=1&mode=mars", one_place.local_url)
    expect(page.locator("#watch input")).to_be_checked()
    race(page)
    page.locator("#watch input").uncheck()
    to_the_end(page)
    expect(page).to_have_url(re.compile("watch=0$"))


def test_only_a_race_longer_than_the_time_limit_is_stopped(visit, slow, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_RACE_SECONDS", "2")
    page = visit(ENDLESS)
    race(page)
    to_the_end(page, "stopped")
    expect(toast(page)).to_contain_text(re.compile(r"\b2\b"))
    dismiss(page)
    monkeypatch.setenv("MARS_DEMO_RACE_SECONDS", "300")
    page.locator("#watch input").uncheck()
    race_to_the_end(page)
    expect(toast(page)).to_have_count(0)


def test_a_full_queue_rejects_a_visitor_who_can_retry(visit, slow, one_place, monkeypatch):
    one, two, three = (visit(ENDLESS, one_place.local_url) for _ in range(3))
    is_ready(three)
    monkeypatch.setenv("MARS_DEMO_WAITING", "1")
    race(one)
    waits(two, "1/1")  # the last position in the queue
    run_button(three).click()
    expect(toast(three)).to_contain_text(re.compile(r"\b1\b"))
    expect(run_button(three)).to_be_enabled()
    stop(one)
    two.locator("#stop").click()
    expect(run_button(two)).to_be_enabled()
    race(three)
    stop(three)


@pytest.mark.parametrize("leave", [Page.close, Page.reload])
def test_a_leaving_visitor_frees_a_position(visit, slow, one_place, leave):
    two, one = visit("prompt=story&tau=0&watch=0", one_place.local_url), visit(ENDLESS, one_place.local_url)
    race(one)
    waits(two, "1/1")
    leave(one)
    expect(stage(two)).to_have_attribute("data-state", "done")
    to_the_end(two)


def test_nothing_is_kept_of_former_visitors(visit, one_place):
    sessions = one_place.state_holder.session_data
    visit()  # the module's page stays open
    until(lambda: not sessions)  # visitors of earlier tests have left
    page = visit("prompt=story&mode=mars&tau=0&watch=0", one_place.local_url)
    race_to_the_end(page)
    (session,) = sessions
    states = sessions[session].state_data
    assert states
    page.close()
    until(lambda: not sessions and not states)


def test_the_example_of_the_api_page_runs_unchanged(url):
    [endpoint] = httpx.get(f"{url}gradio_api/info").json()["named_endpoints"].values()
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(endpoint["code_snippets"]["python"], {})
    assert output.getvalue().strip()
