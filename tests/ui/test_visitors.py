"""What visitors of a hosted app expect: they see that they wait, and for how many others."""

import contextlib
import io
import json
import re
import shlex
import time
import urllib.request

import pytest
from gradio_client import Client
from playwright.sync_api import expect
from test_page import race, to_the_end

from mars_demo.ui import visitors
from mars_demo.ui.page import LOOK, build


@pytest.fixture(scope="module")
def one_place(url):
    """An app where one race goes on at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MARS_DEMO_RACES", "1")
        demo = build()
        demo.launch(prevent_thread_lock=True, quiet=True, **LOOK)
    yield demo
    demo.close()


@pytest.fixture
def narrow(one_place):
    return one_place.local_url


def forwards(page) -> int:
    return page.locator(".token").count()


def test_two_visitors_race_at_once(visit, slow):
    pages = [visit("prompt=table&tau=1&mode=mars"), visit("prompt=story&mode=mars&tau=1")]
    for page in pages:
        race(page)
    for page in pages:  # each goes on while the other does
        expect(page.locator("#stop")).to_be_enabled()
        before = forwards(page)
        expect(page.locator(".token").nth(before + 3)).to_be_attached()
        expect(page.locator("#stop")).to_be_enabled()
    for page in pages:
        page.locator("#stop").click()
        expect(page.locator("#run")).to_be_enabled()


def test_who_comes_when_all_places_are_taken_sees_their_place_in_the_queue(visit, narrow, slow):
    one = visit("prompt=table&tau=1&mode=mars", narrow)
    others = [visit("prompt=story&mode=mars&tau=0", narrow) for _ in range(2)]
    race(one)
    for place, page in enumerate(others, start=1):
        expect(page.locator("#model input")).not_to_have_value("")
        page.locator("#run").click()
        expect(page.locator("#prompt").get_by_text(f"queue: {place}/{place}")).to_be_visible()
    one.locator("#stop").click()
    for page in others:
        to_the_end(page)


def test_who_comes_when_the_queue_is_full_gets_a_sentence_and_may_try_again(
    visit, narrow, slow, monkeypatch
):
    pages = [visit("prompt=table&tau=1&mode=mars", narrow) for _ in range(3)]
    one, two, three = pages
    for page in pages:
        expect(page.locator("#model input")).not_to_have_value("")
    monkeypatch.setenv("MARS_DEMO_WAITING", "1")
    race(one)
    two.locator("#run").click()  # the last one for whom there is room
    expect(two.locator("#prompt").get_by_text("queue: 1/1")).to_be_visible()
    three.locator("#run").click()
    told = "1 visitors wait already, which is the limit here. Try again in a minute."
    expect(three.get_by_test_id("toast-body")).to_contain_text(told)
    expect(three.locator("#run")).to_be_enabled()
    one.locator("#stop").click()
    two.locator("#stop").click()
    expect(two.locator("#run")).to_be_enabled()
    race(three)
    three.locator("#stop").click()
    expect(three.locator("#run")).to_be_enabled()


@pytest.mark.parametrize("leaving", [lambda page: page.close(), lambda page: page.reload()])
def test_who_leaves_makes_room_within_seconds(visit, narrow, slow, leaving):
    one, two = visit("prompt=table&tau=1&mode=mars&wait=1000", narrow), visit("prompt=story&tau=0", narrow)
    expect(two.locator("#model input")).not_to_have_value("")
    race(one)
    two.locator("#run").click()
    expect(two.locator("#prompt").get_by_text("queue: 1/1")).to_be_visible()
    leaving(one)
    expect(two.locator("#stop")).to_be_enabled(timeout=5_000)
    to_the_end(two)


def test_nothing_is_kept_of_who_has_left(visit, narrow, one_place):
    known = one_place.state_holder.session_data
    for session in list(known):  # of earlier tests
        wait_until(lambda gone=session: gone not in known)
    page = visit("prompt=story&mode=mars&tau=0", narrow)
    race(page)
    to_the_end(page)
    assert len(known) == 1
    (session,) = known
    assert session in visitors._calls
    page.close()
    wait_until(lambda: not known and session not in visitors._calls)


def wait_until(true) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline


def test_slow_motion_leaves_the_turns_to_others(visit):
    slow_one, other = visit("prompt=table&tau=1&mode=mars&wait=1000"), visit("prompt=story&mode=mars&tau=0")
    race(slow_one)
    race(other)
    to_the_end(other)
    expect(slow_one.locator("#stop")).to_be_enabled()
    slow_one.locator("#stop").click()
    expect(slow_one.locator("#run")).to_be_enabled()


def test_a_race_ends_at_the_limit_of_time(visit, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_RACE_SECONDS", "2")
    page = visit("prompt=table&tau=1&mode=mars&wait=1000")
    race(page)
    expect(page.get_by_text("Stopped after 2 seconds, which is the limit here.")).to_be_visible()
    expect(page.locator("#run")).to_be_enabled()


def test_a_race_that_ends_before_the_limit_is_whole(visit, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_RACE_SECONDS", "30")
    page = visit("prompt=story&mode=mars&tau=0")
    race(page)
    to_the_end(page)
    expect(page.get_by_text("which is the limit here")).to_have_count(0)


def test_the_examples_of_the_api_page_run_as_they_are(url):
    with urllib.request.urlopen(f"{url}gradio_api/info") as response:
        [found] = json.load(response)["named_endpoints"].values()
    snippets = found["code_snippets"]

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(snippets["python"], {})
    assert json.loads(said.getvalue().splitlines()[-2])["done"]

    address = shlex.split(snippets["bash"])[3]
    body = json.loads(re.search(r"-d '(.*)'", snippets["bash"])[1])
    asked = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as response:
        event = json.load(response)["event_id"]
    with urllib.request.urlopen(f"{url}gradio_api/call/generate/{event}") as response:
        assert "event: complete" in response.read().decode()

    arguments = json.loads(re.search(r"'(\{.*\})'", snippets["cli"], re.DOTALL)[1])
    record = Client(url, verbose=False).predict(**arguments, api_name="/generate")
    assert json.loads(record.splitlines()[0])["prompt"] == arguments["prompt"]


def test_a_space_can_be_duplicated_and_other_apps_cannot(monkeypatch):
    def buttons() -> list[str]:
        return [block.value for block in build().blocks.values() if block.get_block_name() == "button"]

    assert "Duplicate Space" not in buttons()
    monkeypatch.setenv("SYSTEM", "spaces")
    monkeypatch.setenv("SPACE_ID", "me/mars")
    assert "Duplicate Space" in buttons()
