"""`--push-to-hub` and `--push` against a local server with the hub's upload API."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mars_demo.models.load import load_checkpoint

pytestmark = pytest.mark.full


class Hub(ThreadingHTTPServer):
    """A hub with one owner, `me`: files come in commits, large ones before them."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Requests)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.created: list[dict] = []
        self.objects: dict[str, bytes] = {}  # large files by their SHA-256
        self.files: dict[str, bytes] = {}
        self.tokens: set[str | None] = set()


class Requests(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body, hub = self.rfile.read(int(self.headers["Content-Length"])), self.server
        hub.tokens.add(self.headers["Authorization"])
        # The URLs of a Space differ from those of a model in the kind.
        route = self.path.partition("?")[0].replace("/api/spaces/", "/api/models/")
        route = route.replace("/spaces/me/", "/me/")
        if route == "/api/repos/create":
            asked = json.loads(body)
            if asked["organization"] != "me":
                return self.answer({"error": "You have no rights to create a model there"}, 403)
            hub.created.append(asked)
            return self.answer({"url": f"{hub.url}/me/{asked['name']}"})
        if route == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        if route == "/api/models/me/model/preupload/main":
            files = [
                {
                    "path": file["path"],
                    "uploadMode": "lfs" if file["path"].endswith((".safetensors", ".gguf")) else "regular",
                    "shouldIgnore": False,
                }
                for file in json.loads(body)["files"]
            ]
            return self.answer({"files": files})
        if route == "/me/model.git/info/lfs/objects/batch":
            objects = [
                wanted | {"actions": {"upload": {"href": f"{hub.url}/objects/{wanted['oid']}"}}}
                for wanted in json.loads(body)["objects"]
            ]
            return self.answer({"transfer": "basic", "objects": objects})
        if route == "/api/models/me/model/commit/main":
            for entry in map(json.loads, body.splitlines()):
                value = entry["value"]
                if entry["key"] == "file":
                    assert value["encoding"] == "base64"
                    hub.files[value["path"]] = base64.b64decode(value["content"])
                elif entry["key"] == "lfsFile":
                    hub.files[value["path"]] = hub.objects[value["oid"]]
            return self.answer({"commitUrl": f"{hub.url}/me/model/commit/1", "commitOid": "1"})
        return self.answer({"error": f"no such route: {route}"}, 404)

    def do_PUT(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.objects[hashlib.sha256(content).hexdigest()] = content
        self.answer({})

    def do_GET(self):
        self.answer({"error": "nothing to be read here"}, 404)

    def answer(self, content: dict, status: int = 200):
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub():
    with Hub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


COMMAND = [
    "train", "--base", "mars-tiny", "--data", "tasks:units", "--steps", "1", "--batch-tokens", "256",
    "--resume",
]  # fmt: skip
PUSHES = """
import sys
from mars_demo import cli
output, *repositories = sys.argv[1:]
for repository in repositories:
    print("status", cli.main([*COMMAND, "--output", output, "--push-to-hub", repository]), file=sys.stderr)
""".replace("COMMAND", repr(COMMAND))


def push(hub: Hub, folder, command: list[str], *repositories: str) -> list[str]:
    """Return the lines on standard error of a command that ends with the folder and repositories.

    It runs in a child process, because the hub's URL is read once. Large files go by the LFS protocol.
    """
    settings = {
        "HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": "hf_mine",
        "HF_HOME": str(folder.parent / "home"), "NO_PROXY": "127.0.0.1",
    }  # fmt: skip
    command = [sys.executable, *command, str(folder), *repositories]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True)
    return done.stderr.splitlines()


def test_a_pushed_space_is_all_on_the_hub(tmp_path, hub):
    folder = tmp_path / "space"
    command = ["-m", "mars_demo", "space", "--hardware", "zero-a10g", "--only", "--push", "me/model"]
    lines = push(hub, folder, [*command, "--output"])
    assert f"{hub.url}/me/model" in lines[-1]
    [made] = hub.created
    asked = {name: made[name] for name in ("type", "sdk", "hardware", "organization", "name")}
    assert list(asked.values()) == ["space", "gradio", "zero-a10g", "me", "model"]
    written = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
    assert set(hub.files) == set(written)
    assert all(hub.files[name] == file.read_bytes() for name, file in written.items())

    lines = push(hub, tmp_path / "other", [*command[:-1], "somebody/space", "--output"])
    assert lines[-1].startswith("mars_demo space: ")
    assert str(tmp_path / "other") in lines[-1] and "somebody/space" in lines[-1]


def test_a_pushed_checkpoint_is_all_on_the_hub_and_nothing_of_its_training(tmp_path, hub):
    folder = tmp_path / "trained"
    (folder / "unfinished-state").mkdir(parents=True)  # of a run that was cut while it saved
    (folder / "unfinished-state" / "optimizer.bin").write_bytes(b"x")
    (folder / "self.jsonl").write_text("{}\n")
    lines = push(hub, folder, ["-c", PUSHES], "somebody/model", "me/model")

    error = lines[lines.index("status 2") - 1]
    assert error.startswith("mars_demo train: ") and str(folder) in error
    assert "somebody/model" in error and "403" in error
    assert "me/model" in lines[-2] and lines[-1] == "status 0"
    assert not any("Traceback" in line for line in lines)

    assert [(made["organization"], made["name"]) for made in hub.created] == [("me", "model")]
    assert hub.tokens == {"Bearer hf_mine"}
    assert set(hub.files) == {
        "README.md", "config.json", "generation_config.json", "model.safetensors", "recipe.json",
        "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "custom_generate/engine.py",
        "custom_generate/acceptance.py", "custom_generate/generate.py", "custom_generate/layout.py",
    }  # fmt: skip
    clone = tmp_path / "clone"
    for name, content in hub.files.items():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_bytes(content)
        assert content == (folder / name).read_bytes()
    loaded = load_checkpoint(str(clone), device="cpu")
    assert (loaded.objective, loaded.block_size) == ("mars", 8)
