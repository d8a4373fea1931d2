"""The start of the app."""

import asyncio
import threading

import gradio as gr
import httpx
import pytest
from child_app import GUARD
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mars_demo.show import scripts
from mars_demo.ui.page import App

pytestmark = pytest.mark.full


def test_a_slow_page_does_not_end_the_start(monkeypatch):
    """Delay the page: by default, Gradio waits for it and gives up."""
    launched = threading.Event()

    async def late(request):
        await asyncio.to_thread(launched.wait, GUARD)
        return PlainTextResponse("late")

    monkeypatch.setattr(scripts, "ROUTE", Route("/", late))
    with App() as demo:
        gr.Markdown("Hello")
    try:
        _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True)
        assert httpx.get(f"{url}config").json()["components"]
    finally:
        launched.set()
        demo.close()
