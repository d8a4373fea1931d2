"""A deployment of the endpoint in processes of its own, for benchmarks."""

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx
import psutil

from mars_demo import tasks

MODEL, SIZE = "mars-tiny", 8
EXAMPLES = {example.prompt: example for example in tasks.mixed(40)}
WAITING = 2000  # requests in a queue, so that no policy refuses any
START, STOP = 180, 40  # seconds until a deployment must answer, and must have ended
WARM_UP = 16  # requests that load the model in all replicas


@contextmanager
def deployed(replicas: int, *options: str, waiting: int = WAITING) -> Iterator[tuple[str, psutil.Process]]:
    """Serve the model; yield the URL and the process once it is warm. 0 replicas are one without Ray."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mars_demo", "serve", "--model", MODEL, "--port", str(port), *options]
    command += ["--replicas", str(replicas)] if replicas else []
    server = psutil.Popen(command, env=os.environ | {"MARS_DEMO_WAITING": str(waiting)})
    url = f"http://127.0.0.1:{port}/v1"
    try:
        _wait(server, url)
        for prompt in list(EXAMPLES)[:WARM_UP]:
            httpx.post(f"{url}/chat/completions", json=body(prompt), timeout=START).raise_for_status()
        yield url, server
    finally:
        family = [server, *server.children(recursive=True)]
        server.send_signal(signal.SIGINT)
        for left in psutil.wait_procs(family, timeout=STOP)[1]:
            left.kill()


def _wait(server: psutil.Process, url: str) -> None:
    """Wait for the endpoint.

    Raises:
        RuntimeError: if the server ends first, or takes longer than `START` seconds.
    """
    end = time.monotonic() + START
    while time.monotonic() < end and server.poll() is None:
        with suppress(httpx.TransportError):
            if httpx.get(f"{url}/models").is_success:
                return
        time.sleep(0.2)
    raise RuntimeError(f"{url} does not answer.")


def body(prompt: str, **fields) -> dict:
    """Return the body of a request."""
    return {"model": MODEL, "messages": [{"role": "user", "content": prompt}]} | fields


def words(replicas: int) -> str:
    """Return a deployment in words."""
    return f"{replicas} replica{'s' * (replicas > 1)}" if replicas else "without Ray"
