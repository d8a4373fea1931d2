"""The app as a process of its own, which is measured from outside."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
TRIES = 3
STARTED = "To create a public link"  # Gradio's last word of a start
STARTING = 120  # seconds until it must serve
# Nothing is measured unasked, so that an answer depends on its prompt and settings alone.
ALONE = {"MARS_DEMO_CACHE": "", "GRADIO_ANALYTICS_ENABLED": "False", "PYTHONUNBUFFERED": "1"}


class App:
    """A process that serves the app at `address`, and the file that gets what it says."""

    def __init__(self, process: subprocess.Popen, address: str, said: Path):
        self.process, self.address, self._said = process, address, said

    def memory(self) -> float:
        """MiB that the process and its children hold in memory."""
        parent, held = psutil.Process(self.process.pid), 0
        for process in (parent, *parent.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                held += process.memory_info().rss
        return held / 2**20

    def busy(self) -> float:
        """Seconds of processor time that the process has had."""
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system

    def tracebacks(self) -> list[str]:
        """The last line of each traceback that it wrote."""
        return tracebacks(self._said.read_text("utf-8", errors="replace"))

    def wait(self) -> None:
        """Until it serves, and Gradio has seen that it does.

        Raises:
            RuntimeError: if it ends before, or takes too long.
        """
        started = time.monotonic()
        while time.monotonic() - started < STARTING and self.process.poll() is None:
            if STARTED in self._said.read_text("utf-8", errors="replace"):
                return
            time.sleep(0.1)
        raise RuntimeError(f"The app did not start:\n{self._said.read_text('utf-8', errors='replace')}")


def tracebacks(said: str) -> list[str]:
    """The last line of each traceback in a log; one that is cut has none of its own."""
    found = []
    for part in said.split("Traceback (most recent call last):\n")[1:]:
        ends = re.search(r"^\S.*$", part, re.MULTILINE)
        found.append(ends[0] if ends else "a traceback that is cut")
    return found


@contextmanager
def serving(model: str, limits: Mapping[str, int] | None = None) -> Iterator[App]:
    """The app with one model, and with an owner's limits by their environment variables.

    Gradio gives a start up where its own page does not answer it within seconds, as on a busy machine.

    Raises:
        RuntimeError: if it does not start, tried `TRIES` times.
    """
    for attempt in range(TRIES):
        with tempfile.TemporaryDirectory() as folder:
            app = _started(model, limits or {}, Path(folder) / "log")
            try:
                try:
                    app.wait()
                except RuntimeError:
                    if attempt == TRIES - 1:
                        raise
                    continue
                yield app
                return
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(app.process.pid, signal.SIGKILL)  # with the processes that it has started
                app.process.wait()


def _started(model: str, limits: Mapping[str, int], said: Path) -> App:
    port = _free_port()
    command = [sys.executable, "app.py", "--only", "--model", model, "--port", str(port)]
    settings = ALONE | {name: str(value) for name, value in limits.items()}
    with said.open("w") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | settings, stdout=log, stderr=log, start_new_session=True
        )
    return App(process, f"http://127.0.0.1:{port}", said)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
