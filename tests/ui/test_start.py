"""The start of the app: the page is served before its models are loaded."""

import asyncio
import subprocess
import threading

import gradio as gr
import httpx
import pytest
from child_app import GUARD, started
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mars_demo.ui.page import App

pytestmark = pytest.mark.full

# Code that Python runs before the app: imports of torch and transformers wait for the end of stdin.
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


def test_the_page_is_served_before_torch_and_transformers_are_imported(tmp_path):
    """Block these imports, which take most of the start; the page and recordings need neither."""
    (tmp_path / "sitecustomize.py").write_text(HOLD)
    with started("app.py", environment={"PYTHONPATH": str(tmp_path)}, stdin=subprocess.PIPE) as child:
        page = httpx.get(child.wait_for_url(), timeout=GUARD).text
        child.process.stdin.close()
    assert "window.gradio_config = {" in page and "MARS Demo" in page


def test_a_slow_page_does_not_end_the_start():
    """Delay the page: by default, Gradio waits for it and gives up."""
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
