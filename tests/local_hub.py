"""A local Hugging Face hub: as much of the protocol as the hub's client needs."""

import hashlib
import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

from huggingface_hub import constants

SHA = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Folders served as models `owner/name`; `served` counts the bytes of the files sent so far."""

    def __init__(self, folders: dict[str, Path]):
        self.folders = folders
        self.gated: set[str] = set()
        self.served = 0

    def sizes(self, name: str) -> dict[str, int]:
        return {file.name: file.stat().st_size for file in sorted(self.folders[name].iterdir())}


class Handler(BaseHTTPRequestHandler):
    """Answers of a `Hub`."""

    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Print nothing."""

    def do_HEAD(self):  # noqa: N802
        self.do_GET()

    def do_GET(self):  # noqa: N802
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        is_api = parts[:2] == ["api", "models"]
        name = "/".join(parts[2:4] if is_api else parts[:2])
        if name in self.hub.gated:
            return self.answer(403, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": "Ask first."})
        if name not in self.hub.folders:
            return self.answer(404, b"", {"X-Error-Code": "RepoNotFound"})
        if is_api and parts[4:5] == ["tree"]:
            return self.tree(name)
        if is_api:
            return self.model(name)
        file = self.hub.folders[name] / parts[-1]
        if not file.is_file():
            return self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})
        data = file.read_bytes()
        self.answer(200, data, {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": SHA})
        self.hub.served += len(data) * (self.command == "GET")

    def model(self, name: str):
        siblings = [{"rfilename": file, "size": size} for file, size in self.hub.sizes(name).items()]
        self.json({"id": name, "modelId": name, "sha": SHA, "siblings": siblings, "tags": []})

    def tree(self, name: str):
        self.json(
            [
                {"type": "file", "path": file, "size": size, "oid": "0" * 40}
                for file, size in self.hub.sizes(name).items()
            ]
        )

    def json(self, value):
        self.answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def answer(self, status: int, data: bytes, headers: dict[str, str]):
        self.send_response(status)
        for key, value in (headers | {"Content-Length": str(len(data))}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)


@contextmanager
def serving(folders: dict[str, Path], monkeypatch, cache: Path):
    """Run a hub for the hub client of this process, with its own cache."""
    hub = Hub(folders)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("HubHandler", (Handler,), {"hub": hub}))
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    use(f"http://127.0.0.1:{server.server_address[1]}", monkeypatch, cache)
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def use(endpoint: str, monkeypatch, cache: Path) -> None:
    """Redirect the hub client of this process to another hub."""
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    files = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", files)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
