"""How soon the app is there, and that visitors do not get in each other's way."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from itertools import pairwise
from pathlib import Path

import pytest
from gradio_client import Client
from playwright.sync_api import expect

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(url: str) -> bool:
    try:
        return urllib.request.urlopen(url, timeout=2).status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


@pytest.fixture(scope="module")
def app():
    """`python app.py` as anybody starts it, and the seconds until it listened."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [sys.executable, "app.py"], cwd=ROOT, env=os.environ | {"GRADIO_SERVER_PORT": str(port)}
    )
    started = time.monotonic()
    while not listens(url) and process.poll() is None and time.monotonic() - started < 60:
        time.sleep(0.1)
    yield url, time.monotonic() - started
    process.terminate()
    process.wait()


def answer(record: str) -> str:
    lines = [json.loads(line) for line in record.splitlines()]
    return "".join(slot["text"] for line in lines[1:-1] for slot in line["slots"][: line["accepted"]])


def test_the_app_listens_within_fifteen_seconds(app):
    assert app[1] < 15


def test_a_pressed_run_shows_a_token_within_two_seconds(app, browser):
    url, _ = app
    Client(url, verbose=False).predict("Hello", api_name="/generate")  # until the model is loaded
    page = browser.new_page()
    page.goto(url)
    expect(page.locator("#model input")).not_to_have_value("", timeout=15_000)
    expect(page.locator("#stage .note")).not_to_be_empty()
    pressed = time.monotonic()
    page.locator("#run").click()
    expect(page.locator("#stage .note")).to_be_empty(timeout=15_000)  # no longer the recorded run
    expect(page.locator("#stage .token").first).to_be_attached(timeout=15_000)
    assert time.monotonic() - pressed < 2
    page.close()


def test_two_visitors_at_once_get_what_each_would_get_alone(app):
    url, _ = app
    prompts = ["Can you show me the 7 times table up to 10?", "Which city is the capital of Latvia?"]
    one, two = Client(url, verbose=False), Client(url, verbose=False)
    alone = [answer(one.predict(prompt, api_name="/generate")) for prompt in prompts]
    jobs = [
        client.submit(prompt, api_name="/generate")
        for client, prompt in zip((one, two), prompts, strict=True)
    ]
    together = [job.result(timeout=60) for job in jobs]
    assert [answer(record) for record in together] == alone
    assert [json.loads(record.splitlines()[0])["prompt"] for record in together] == prompts


def test_the_api_streams_a_record_that_grows(app):
    url, _ = app
    job = Client(url, verbose=False).submit(
        "Tell me a short story about a lantern and a wizard.", tau=1.0, api_name="/generate"
    )
    shown = list(job)
    assert len(shown) > 1
    assert all(later.startswith(earlier) for earlier, later in pairwise(shown))
    closing = json.loads(shown[-1].splitlines()[-1])
    assert closing["done"] and closing["tokens"] == closing["forwards"]


def test_the_api_says_what_is_wrong(app):
    url, _ = app
    with pytest.raises(Exception, match="The prompt is empty"):
        Client(url, verbose=False).predict("  ", api_name="/generate")
    with pytest.raises(Exception, match="no model '/etc/passwd' here"):
        Client(url, verbose=False).predict("Hi", model="/etc/passwd", api_name="/generate")
