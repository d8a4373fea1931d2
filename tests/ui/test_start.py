"""The app is there before its models, and visitors do not get in each other's way."""

import asyncio
import json
import subprocess
import threading
import urllib.request
from itertools import pairwise

import gradio as gr
import httpx
import pytest
from child_app import GUARD, started
from gradio_client import Client
from playwright.sync_api import expect
from race_tab import race, set_slider, stage, stop
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mars_demo.decoding.trace import Run
from mars_demo.ui.page import App

pytestmark = pytest.mark.full

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
    with started("app.py", environment={"PYTHONPATH": str(hold)}, stdin=subprocess.PIPE) as child:
        url = child.wait_for_address()
        page = urllib.request.urlopen(url, timeout=GUARD).read().decode()
        child.process.stdin.close()
        yield url, page


def answer(record: str) -> str:
    return Run.read(record.splitlines()).text


def test_the_page_is_served_before_torch_and_transformers_are_imported(app):
    """Importing them takes most of a start; the page and what is recorded need none of it."""
    _, page = app
    assert "window.gradio_config = {" in page and "MARS Demo" in page


def test_a_run_shows_its_first_tokens_while_it_computes_the_others(app, visit):
    url, _ = app
    # Until the model is loaded.
    Client(url, verbose=False, httpx_kwargs={"timeout": GUARD}).predict(
        "Hello", max_new_tokens=2, api_name="/generate"
    )
    page = visit(address=url)
    expect(page.locator("#stage .note")).not_to_be_empty()
    set_slider(page, "wait", 1000)  # after each forward
    race(page)
    expect(stage(page)).to_have_attribute("data-state", "running")
    expect(page.locator("#run")).to_be_disabled()
    stop(page)


def test_two_visitors_at_once_get_what_each_would_get_alone(app):
    url, _ = app
    tiny = {"model": "mars-tiny", "api_name": "/generate"}
    prompts = ["Can you show me the 7 times table up to 10?", "Which city is the capital of Latvia?"]
    one, two = (
        Client(url, verbose=False, httpx_kwargs={"timeout": GUARD}),
        Client(url, verbose=False, httpx_kwargs={"timeout": GUARD}),
    )
    alone = [answer(one.predict(prompt, **tiny)) for prompt in prompts]
    jobs = [client.submit(prompt, **tiny) for client, prompt in zip((one, two), prompts, strict=True)]
    together = [job.result(timeout=GUARD) for job in jobs]
    assert [answer(record) for record in together] == alone
    assert [json.loads(record.splitlines()[0])["prompt"] for record in together] == prompts


def test_the_api_streams_a_record_that_grows(app):
    url, _ = app
    job = Client(url, verbose=False, httpx_kwargs={"timeout": GUARD}).submit(
        "Tell me a short story about a lantern and a wizard.", "mars-tiny", tau=1.0, api_name="/generate"
    )
    shown = list(job)
    assert len(shown) > 1
    assert all(later.startswith(earlier) for earlier, later in pairwise(shown))
    closing = json.loads(shown[-1].splitlines()[-1])
    assert closing["done"] and closing["tokens"] == closing["forwards"]


def test_a_page_that_comes_late_does_not_end_the_start():
    """Gradio would wait for its own page and give up."""
    launched = threading.Event()

    async def late(request):
        await asyncio.to_thread(launched.wait, GUARD)
        return PlainTextResponse("late")

    with App() as demo:
        gr.Markdown("Hello")
    try:
        _, url, _ = demo.launch(routes=[Route("/", late)], prevent_thread_lock=True, quiet=True)
        assert httpx.get(f"{url}config").json()["components"]
    finally:
        launched.set()
        demo.close()
