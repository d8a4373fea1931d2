"""A real app and a real browser, once per session; a fresh visitor per test."""

import time
from pathlib import Path

import gradio as gr
import pytest
from playwright.sync_api import expect

from mars_demo.ui import models, options
from mars_demo.ui.components.stage import Stage
from mars_demo.ui.page import LOOK, build

expect.set_options(timeout=60_000)


# A visitor who has seen the tour. Where storage is closed, as on an empty page, there is nothing to write.
SEEN = "try { localStorage.setItem('mars-demo-tour', 'seen'); } catch {}"


@pytest.fixture(scope="session")
def url():
    """Of an app that serves the tiny models alone: they answer in milliseconds."""
    models.serve(options.read(["--only", "--model", "mars-tiny", "--model", "ar-tiny"]))
    demo = build()
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True, **LOOK)
    models.load()
    yield address
    demo.close()


@pytest.fixture(scope="session")
def stage_url():
    """Of a page with nothing on it but the stage and its recorded runs; no model is loaded."""
    with gr.Blocks() as demo:
        Stage()
    _, address, _ = demo.launch(prevent_thread_lock=True, quiet=True, **LOOK)
    yield address
    demo.close()


@pytest.fixture
def visit(browser, url):
    """Open the page as one more visitor. A script error or a dialog on any of the pages fails the test.

    By default nothing moves by itself, so that a test never waits for the first screen's replay, and the
    tour stays away as for whoever has seen it; with `first` it is a first visit.
    """
    contexts, troubles = [], []

    def open_page(query: str = "", address: str = url, first: bool = False, **options):
        options = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **options}
        context = browser.new_context(**options)
        context.set_default_timeout(60_000)  # as what is expected: two heavy tests may share the cores
        contexts.append(context)
        if not first:
            context.add_init_script(SEEN)
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(error.stack or str(error)))
        page.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
        page.goto(f"{address}?{query}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not troubles


@pytest.fixture
def visit_file(browser):
    """Open a page from disk, without a network. An error on it, or a request for anything but the page and
    what is in its `folder`, fails the test."""
    contexts, troubles = [], []

    def open_file(path: Path, ending: str = "", folder: Path | None = None, **options):
        allowed = folder.as_uri() + "/" if folder else path.as_uri()
        options = {"viewport": {"width": 1280, "height": 900}, **options}
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()

        def ask(request):
            if not request.url.startswith((allowed, "data:", "blob:")):
                troubles.append(request.url)

        page.on("request", ask)
        page.on("pageerror", lambda error: troubles.append(error.stack or str(error)))
        page.on("console", lambda message: message.type == "error" and troubles.append(message.text))
        page.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
        page.goto(path.as_uri() + ending)
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert not troubles


@pytest.fixture
def slow():
    """A slower machine: every forward takes longer, so that there is time to act within a race."""
    hook = models.load().model.base_model.register_forward_pre_hook(lambda *_: time.sleep(0.04))
    yield
    hook.remove()
