"""The app as a process of its own, in a folder where every file that it touches is noticed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECRET = "canary-7f3a91"  # what the files hold that no visitor may see
START = 180  # seconds until it must be there


class Server:
    """The app with the two tiny models, as `python app.py` starts it.

    It runs in the folder `work` below `folder`; only `tmp`, next to it, is its own to write to. Its output
    goes to `log`.
    """

    def __init__(self, folder: Path, **environment: str):
        self.folder, self.log = folder, folder / "log.txt"
        for name in ("work", "home", "tmp", "others"):
            (folder / name).mkdir(parents=True)
            (folder / name / "canary.txt").write_text(SECRET, "utf-8")
        (folder / "canary").write_text(SECRET, "utf-8")
        own = {
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "GRADIO_ANALYTICS_ENABLED": "False",
            "HF_HUB_OFFLINE": "1",
            "MARS_DEMO_CACHE": "",
        }
        given = {name: value for name, value in os.environ.items() if not name.startswith("GRADIO_")}
        self.environment = given | own | environment

    def __enter__(self) -> Server:
        until = time.monotonic() + START
        self._start()
        while not self._is_there():
            if time.monotonic() > until:
                self.__exit__()
                raise RuntimeError(f"The app did not start: {self.log.read_text('utf-8')}")
            if self.process.poll() is not None:  # on a busy machine Gradio finds that it does not answer
                self._start()
            time.sleep(0.2)
        self.before = self.files()
        return self

    def _start(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        served = ["--only", "--model", "mars-tiny", "--model", "ar-tiny", "--port", str(port)]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "app.py"), *served],
                cwd=self.folder / "work",
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _is_there(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/config", timeout=5):
                return True
        except OSError:
            return False

    def __exit__(self, *_) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def files(self) -> dict[str, tuple[int, int]]:
        """Size and time of change of the files that are not its own: of the app, and around its folder."""
        own = (self.folder / "tmp", self.log)
        app = [ROOT / name for name in ("app.py", "mars_demo", "assets")]
        found = {}
        for root in (*app, self.folder):
            for path in (root, *root.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts and not _is_below(path, own):
                    stat = path.stat()
                    found[str(path)] = (stat.st_size, stat.st_mtime_ns)
        canary = self.folder / "tmp" / "canary.txt"
        return found | {str(canary): (canary.stat().st_size, canary.stat().st_mtime_ns)}

    def touched(self) -> list[str]:
        """The files that are not its own and that have come, gone or changed since it started."""
        now = self.files()
        both = now.keys() | self.before.keys()
        return sorted(path for path in both if now.get(path) != self.before.get(path))

    def memory(self) -> int:
        """MiB that it holds."""
        import psutil

        return psutil.Process(self.process.pid).memory_info().rss >> 20


def _is_below(path: Path, folders: tuple[Path, ...]) -> bool:
    return any(path == folder or folder in path.parents for folder in folders)
