"""The live page: a static page on which a visitor's prompt is decoded in the visitor's browser."""

import html
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from string import Template

from mars_demo.assets import read_json
from mars_demo.export import onnx_model
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.modes import MODES
from mars_demo.ui import api, standalone
from mars_demo.ui.components.stage import SLOT, Stage, replay_template
from mars_demo.ui.controls import TAU, TAU_STEP
from mars_demo.ui.live import runtime
from mars_demo.views import recordings

TITLE = "MARS in your browser"
OFFERED = ("mars", "lossless")  # the modes beside the baseline; the first is chosen
FILES = ("live.css", "live.js")  # of the page, in the shared folder
POLICY = "worker-src 'self'; connect-src 'self'; "  # the decoder, and the page that saves a run
_HERE = Path(__file__).parent
_BODY = Template((_HERE / "page.html").read_text("utf-8"))
_WORKER = "worker"


def collect(folder: Path, checkpoints: Sequence[Checkpoint], runtime_url: str | None = None) -> int:
    """Write everything but the page to an empty folder: models, worker and libraries; return the bytes.

    Raises:
        ValueError: if a model cannot be exported, or the libraries cannot be had (see `runtime.fetch`).
    """
    shutil.copytree(_HERE / _WORKER, folder / _WORKER)
    libraries = folder / _WORKER / "runtime"
    libraries.mkdir()
    runtime.fetch(libraries, runtime_url)
    (folder / "models").mkdir()
    for checkpoint in checkpoints:
        onnx_model.write(checkpoint, folder / "models" / checkpoint.name, 32)
    return _size(folder)


def pages(folder: Path, stage: Stage) -> dict[str, str]:
    """Return the text files that belong to a collected folder, by their paths beside it."""
    models = sorted(path.name for path in (folder / "models").iterdir())
    libraries = _size(folder / _WORKER)
    listed = [
        {
            "name": name,
            "megabytes": round((_size(folder / "models" / name) + libraries) / 1e6),
            "examples": [e for e in read_json("prompts.json") if e["model"] == name],
        }
        for name in models
    ]
    data = {"models": listed, "tokens": api.MAX_NEW_TOKENS, "tau": TAU, "step": TAU_STEP, "slot": SLOT}
    body = _BODY.substitute(
        title=html.escape(TITLE),
        several="" if len(models) > 1 else "hidden",
        modes="\n    ".join(_checkbox(name, name == OFFERED[0]) for name in OFFERED),
        figure=standalone.figure(stage, _opening(models)),
    )
    body += f'<script type="application/json" id="live">{standalone.data(json.dumps(data))}</script>\n'
    return {
        "live/index.html": standalone.document(TITLE, body, [stage], "../shared", FILES, POLICY),
        "shared/replay.html": replay_template(),
        **{f"shared/{name}": (_HERE / name).read_text("utf-8") for name in FILES},
    }


def _opening(models: Sequence[str]) -> str:
    """Return the first recorded run of a model of the page; "" if there is none."""
    entries = (entry["id"] for entry in recordings.index() if entry["model"] in models)
    return next((recordings.recording(id) for id in entries), "")


def _checkbox(name: str, checked: bool) -> str:
    mode = MODES[name]
    state = " checked" if checked else ""
    said = html.escape(f"{mode.title}: {mode.explained}")
    return f'<label><input type="checkbox" value="{name}"{state}> {said}</label>'


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
