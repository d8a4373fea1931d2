"""Apps in child processes."""

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
GUARD = 600  # seconds without output after which a child has failed
URL = re.compile(r"https?://[\w.]+:\d+")
# Gradio takes the first free port from here on. Each test process has its own range.
PORTS = str(int(os.environ["GRADIO_SERVER_PORT"]) + 100)


class Child:
    """A child process and the lines it has written to standard output."""

    def __init__(self, process: subprocess.Popen):
        self.process, self.lines = process, []
        self._written: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._written.put(line)
        self._written.put(None)

    def wait_for(self, text: str) -> str:
        """Return the next line that contains a text."""
        while (line := self._written.get(timeout=GUARD)) is not None:
            self.lines.append(line)
            if text in line:
                return line
        raise AssertionError(f"The process ended without {text!r}:\n{''.join(self.lines)}")

    def wait_for_url(self, text: str = "Running on local URL") -> str:
        """Return the URL in the next line that contains a text, without a trailing slash."""
        return URL.search(self.wait_for(text))[0].replace("0.0.0.0", "127.0.0.1")

    def rest(self) -> str:
        """Return all further output, up to the end of the process."""
        rest = []
        while (line := self._written.get(timeout=GUARD)) is not None:
            rest.append(line)
        return "".join(rest)


@contextmanager
def started(
    *command: str, environment: Mapping[str, str] | None = None, python: str = sys.executable,
    folder: Path = ROOT, stdin: int | None = None,
) -> Iterator[Child]:  # fmt: skip
    """Run Python with a command, and kill it and its children at the end."""
    settings = {"PYTHONUNBUFFERED": "1", "GRADIO_SERVER_PORT": PORTS, **(environment or {})}
    arguments: Sequence[str] = [python, *command]
    process = subprocess.Popen(
        arguments, cwd=folder, env=os.environ | settings, stdin=stdin, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield Child(process)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
