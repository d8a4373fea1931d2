"""The endpoint in a thread of the test process, so that tests can inspect its state, and its client."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from time import monotonic, sleep
from typing import Any

import gradio_client
import openai

from mars_demo.serving.endpoint import Endpoint, WebServer, listening

HANG_GUARD = 300  # seconds


@contextmanager
def serving(endpoint: Endpoint, origins: Sequence[str] = (), host: str = "127.0.0.1") -> Iterator[str]:
    """Run the server and yield its URL. origins, host: as for `WebServer`."""
    with listening(host, 0) as place:
        server = WebServer(endpoint, host, origins)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{place.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(HANG_GUARD)
        assert not thread.is_alive()


@cache
def client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=HANG_GUARD)


def ask(url: str, prompt: str | list[dict], extra: dict | None = None, **fields):
    """Return the answer to a prompt or to messages, by `mars-tiny` unless `fields` name another model."""
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    fields = {"model": "mars-tiny", "messages": messages, "extra_body": extra} | fields
    return client(url).chat.completions.create(**fields)


def until(condition: Callable[[], bool], seconds: float = HANG_GUARD) -> None:
    """Wait until a condition holds that another thread fulfills."""
    end = monotonic() + seconds
    while not condition():
        assert monotonic() < end, "the condition was never met"
        sleep(0.005)


def run(work: Coroutine) -> Any:
    """Run a coroutine in its own thread; a test's browser may keep an event loop in this one."""
    with ThreadPoolExecutor(1) as beside:
        return beside.submit(asyncio.run, work).result()


def app_client(url: str) -> gradio_client.Client:
    return gradio_client.Client(url, verbose=False, httpx_kwargs={"timeout": HANG_GUARD})


def ours(caplog) -> list[logging.LogRecord]:
    """Return the records that this project logged."""
    return [record for record in caplog.records if record.name.startswith("mars_demo")]
