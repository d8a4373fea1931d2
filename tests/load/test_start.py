"""The app is there before its models, and visitors do not get in each other's way."""

import asyncio
import json
import os
import select
import subprocess
import sys
import urllib.request
from itertools import pairwise
from pathlib import Path

import gradio as gr
import httpx
import pytest
from gradio_client import Client
from playwright.sync_api import expect
from ports import free_port
from starlette.routing import Route

from mars_demo.ui.page import App

ROOT = Path(__file__).parents[2]


# Python runs this before the app: an import of torch or transformers waits until standard input ends.
HOLD = """
import sys
from importlib.machinery import PathFinder

class Held:
    def find_spec(self, name, *where):
        if name in ("torch", "transformers"):
            spec = PathFinder.find_spec(name, *where)
            run = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (sys.stdin.read(), run(module))
            return spec

sys.meta_path.insert(0, Held())
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """The address of `python app.py`, started as usual, and its page from before torch or transformers
    could be imported."""
    hold = tmp_path_factory.mktemp("hold")
    (hold / "sitecustomize.py").write_text(HOLD)
    port = free_port()
    settings = {"GRADIO_SERVER_PORT": str(port), "PYTHONPATH": str(hold), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "app.py"], cwd=ROOT, env=os.environ | settings, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, bufsize=0,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    page = ""
    while select.select([process.stdout], [], [], 60)[0] and (line := process.stdout.readline()):
        if b"Running on" in line:
            page = urllib.request.urlopen(url, timeout=60).read().decode()
            break
    process.stdin.close()
    yield url, page
    process.terminate()
    process.wait()


def answer(record: str) -> str:
    lines = [json.loads(line) for line in record.splitlines()]
    return "".join(slot["text"] for line in lines[1:-1] for slot in line["slots"][: line["accepted"]])


def test_the_page_is_served_before_torch_and_transformers_are_imported(app):
    """Importing them takes most of a start; the page and what is recorded need none of it."""
    _, page = app
    assert "window.gradio_config = {" in page and "MARS Demo" in page


def test_a_run_shows_its_first_tokens_while_it_computes_the_others(app, browser):
    url, _ = app
    # Until the model is loaded.
    Client(url, verbose=False).predict("Hello", max_new_tokens=2, api_name="/generate")
    page = browser.new_page()
    page.goto(url)
    expect(page.locator("#model input")).not_to_have_value("", timeout=60_000)
    expect(page.locator("#stage .note")).not_to_be_empty()
    page.locator("#wait input[type=range]").fill(
        "1000"
    )  # so long a rest after each forward that it is seen
    page.locator("#run").click()
    expect(page.locator("#stage .note")).to_be_empty(timeout=60_000)  # no longer the recorded run
    expect(page.locator("#stage .token").first).to_be_attached(timeout=60_000)
    expect(page.locator("#stop")).to_be_enabled()
    expect(page.locator("#run")).to_be_disabled()
    page.locator("#stop").click()
    expect(page.locator("#run")).to_be_enabled(timeout=60_000)
    page.close()


def test_two_visitors_at_once_get_what_each_would_get_alone(app):
    url, _ = app
    tiny = {"model": "mars-tiny", "api_name": "/generate"}
    prompts = ["Can you show me the 7 times table up to 10?", "Which city is the capital of Latvia?"]
    one, two = Client(url, verbose=False), Client(url, verbose=False)
    alone = [answer(one.predict(prompt, **tiny)) for prompt in prompts]
    jobs = [client.submit(prompt, **tiny) for client, prompt in zip((one, two), prompts, strict=True)]
    together = [job.result(timeout=60) for job in jobs]
    assert [answer(record) for record in together] == alone
    assert [json.loads(record.splitlines()[0])["prompt"] for record in together] == prompts


def test_the_api_streams_a_record_that_grows(app):
    url, _ = app
    job = Client(url, verbose=False).submit(
        "Tell me a short story about a lantern and a wizard.", "mars-tiny", tau=1.0, api_name="/generate"
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
    with pytest.raises(Exception, match="Unknown model '/etc/passwd'"):
        Client(url, verbose=False).predict("Hi", model="/etc/passwd", api_name="/generate")


def test_a_page_that_comes_late_does_not_end_the_start():
    async def slow(request):
        await asyncio.sleep(4)

    with App() as demo:
        gr.Markdown("Hello")
    _, url, _ = demo.launch(routes=[Route("/", slow)], prevent_thread_lock=True, quiet=True)
    assert httpx.get(f"{url}config").json()["components"]
    demo.close()
