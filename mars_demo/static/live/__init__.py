"""The live page: a static page on which a visitor's prompt is decoded in the visitor's browser."""

import html
import json
from collections.abc import Iterable
from pathlib import Path
from string import Template
from typing import Any

from mars_demo.core.acceptance import TAU
from mars_demo.core.assets import read_json
from mars_demo.core.limits import NEW_TOKENS
from mars_demo.core.modes import MODES, OPENING, TAU_HINT
from mars_demo.core.names import CHAT, TINY
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.show import recordings
from mars_demo.show.components import Figure
from mars_demo.show.scripts import built
from mars_demo.static import onnx_model, standalone
from mars_demo.static.live import runtime
from mars_demo.static.standalone.replay import SLOT, replay_template

TITLE = "MARS in your browser"
MODELS = (TINY, CHAT)  # those that decode in the browser
MEMORY = {CHAT: "about 0.8 GB"}  # of a page with a large model, in Chromium
POLICY = "worker-src 'self'; connect-src 'self'; "  # the decoder, and the page that saves a run
_HERE = Path(__file__).parent
_BODY = Template((_HERE / "page.html").read_text("utf-8"))
_WORKER = "worker"


def collect(folder: Path, checkpoints: Iterable[Checkpoint]) -> int:
    """Write everything but the page to an empty folder: models, worker and libraries; return the bytes.

    Raises:
        ValueError: if a model cannot be exported, or the libraries cannot be fetched.
    """
    libraries = folder / _WORKER / "runtime"
    libraries.mkdir(parents=True)
    (folder / _WORKER / "worker.js").write_text(built("worker"), encoding="utf-8")
    runtime.fetch_libraries(libraries)  # first, since exporting takes longer
    (folder / "models").mkdir()
    for checkpoint in checkpoints:
        bits = onnx_model.default_bits(checkpoint)
        onnx_model.write_onnx(checkpoint, folder / "models" / checkpoint.name, bits)
    return _size(folder)


def pages(folder: Path, stage: Figure) -> dict[str, str]:
    """Return the text files that belong to a collected folder, by their paths beside it.

    The smallest model is the first one, which the page loads at once.
    """
    libraries = _size(folder / _WORKER / "runtime")
    listed = [_facts(path, libraries) for path in sorted((folder / "models").iterdir(), key=_size)]
    data = {"models": listed, "tokens": NEW_TOKENS, "tau": TAU, "slot": SLOT}
    body = _BODY.substitute(
        title=html.escape(TITLE),
        several="" if len(listed) > 1 else "hidden",
        models="\n    ".join(_radio(model, model is listed[0]) for model in listed),
        about="\n  ".join(_about(folder / "models" / model["name"]) for model in listed),
        hint=TAU_HINT,
        modes="\n    ".join(map(_checkbox, OPENING)),
        figure=standalone.figure(stage, ""),
    )
    body += f'<script type="application/json" id="live">{standalone.data(json.dumps(data))}</script>\n'
    return {
        "live/index.html": standalone.document(
            TITLE, body, [stage], "../shared", "live.js", ["live.css"], POLICY
        ),
        "shared/replay.html": replay_template(),
        "shared/live.css": (_HERE / "live.css").read_text("utf-8"),
        "shared/live.js": built("live"),
    }


def _facts(folder: Path, libraries: int) -> dict[str, Any]:
    """Return what the page's script knows of an exported model; its size includes that of the libraries."""
    return {
        "name": folder.name,
        "megabytes": round((_size(folder) + libraries) / 1e6),
        "examples": [
            one
            for one in read_json("prompts.json")
            if one["model"] == folder.name and "shape" not in one  # this page follows no grammar
        ],
        "opening": _opening(folder.name),
    }


def _opening(name: str) -> str:
    """Return the first recorded run of a model; "" if there is none."""
    entries = (entry["id"] for entry in recordings.index() if entry["model"] == name)
    return next(map(recordings.recording, entries), "")


def _radio(model: dict[str, Any], checked: bool) -> str:
    name, state = html.escape(model["name"]), " checked" if checked else ""
    memory = MEMORY.get(model["name"])
    needs = f" and {memory} of memory: too much for many phones" if memory else ""
    said = f"{name}: {model['megabytes']} MB{needs}"
    return f'<label class="choice"><input type="radio" name="model" value="{name}"{state}> {said}</label>'


def _about(folder: Path) -> str:
    """Return a paragraph about an exported model: what it can do, its origin and its licence."""
    described = json.loads((folder / onnx_model.DESCRIPTION).read_text("utf-8"))
    sentences = [html.escape(read_json("models.json").get(folder.name, ""))]
    if base := described["base_model"]:
        url = html.escape(f"https://huggingface.co/{base}")
        sentences.append(f'Its base is <a href="{url}">{html.escape(base)}</a>.')
    if onnx_model.LICENSE.name in described["files"]:
        name = html.escape(described["license"] or "see its file")
        link = f'<a href="models/{folder.name}/{onnx_model.LICENSE.name}">{name}</a>'
        sentences.append(f"Licence: {link}.")
    return f'<p class="about" data-model="{html.escape(folder.name)}" hidden>{" ".join(sentences)}</p>'


def _checkbox(name: str) -> str:
    mode = MODES[name]
    said = html.escape(f"{mode.title}: {mode.explained}")
    return f'<label class="choice"><input type="checkbox" value="{name}" checked> {said}</label>'


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
