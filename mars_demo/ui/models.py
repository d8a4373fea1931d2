"""The models the app serves: the bundled ones, each loaded once and shared by all visitors."""

import json
import re
import secrets
import shutil
import tempfile
import threading
import zipfile
from pathlib import Path

from mars_demo.trace import Run

TRAINED = 4  # checkpoints that visitors have trained or uploaded and that are kept, the newest
LARGEST_BASE = 200_000_000  # parameters of a base from a hub
LARGEST_UPLOAD = 600 << 20  # bytes, unpacked
TINY = "mars-tiny"  # it knows the built-in worlds, which lessons, batches and trainings are about
ASSETS = Path(__file__).parents[2] / "assets"

_loaded = {}
_trained = {}
_uploaded = {}
_lock = threading.RLock()


def _library():
    """The modules that run models, imported on first use: the page is there before torch is.

    One thread at a time: transformers cannot be imported by two at once.
    """
    with _lock:
        from mars_demo import checkpoints, decoding

        return checkpoints, decoding


def is_bundled(name: str) -> bool:
    """Whether a model lies in the assets, asked of the disk alone."""
    return (ASSETS / name / "config.json").exists()


def names() -> list[str]:
    """What a visitor may choose from, best first."""
    checkpoints, _ = _library()
    return checkpoints.bundled()


def racers() -> list[str]:
    """Those of them that were trained with masks."""
    configs = {name: ASSETS / name / "config.json" for name in names()}
    return [name for name, path in configs.items() if json.loads(path.read_text()).get("block_size")]


def knows(name: str) -> str | None:
    """What a model was trained on, in a sentence; None of those about which nothing is written."""
    return json.loads((ASSETS / "models.json").read_text("utf-8")).get(name)


def card(name: str) -> str:
    """The model card of a bundled model without its front matter; empty where there is none."""
    path = ASSETS / name / "README.md"
    if name not in names() or not path.exists():
        return ""
    return path.read_text("utf-8").split("---\n", 2)[-1].strip()


def load(name: str | None = None):
    """The checkpoint of that name, or the best one.

    Raises:
        ValueError: if it is none of `names()`: visitors do not make the server fetch or open anything.
    """
    checkpoints, _ = _library()
    if name in _trained:
        return _trained[name]
    served = names()
    name = name or next(iter(served), None)
    if name not in served:
        raise ValueError(f"There is no model {name!r} here; there are {', '.join(served) or 'none'}.")
    with _lock:
        if name not in _loaded:
            _loaded[name] = checkpoints.load(name)
        return _loaded[name]


def fresh(name: str):
    """A checkpoint of one's own to train, in float32: a served one, an uploaded one, or a small one from a
    hub.

    Raises:
        ValueError: if it is none of these.
    """
    checkpoints, _ = _library()
    import torch

    exact = {"dtype": torch.float32}
    if name in _uploaded:
        return checkpoints.load(_uploaded[name], **exact)
    if name in names():
        return checkpoints.load(name, **exact)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name or "") or Path(name).exists():
        allowed = ", ".join([*names(), *_uploaded])
        raise ValueError(f"There is no base {name!r}: allowed are {allowed} or a hub id (owner/name).")
    size = _parameters_on_hub(name)
    if size > LARGEST_BASE:
        raise ValueError(
            f"{name} has {size / 1e6:.0f} million parameters; "
            f"at most {LARGEST_BASE / 1e6:.0f} million can be trained here."
        )
    return checkpoints.load(name, **exact)


def _parameters_on_hub(name: str) -> int:
    from huggingface_hub import HfApi

    try:
        return HfApi().model_info(name, timeout=10).safetensors.total
    except Exception as error:  # whatever the hub's client raises, the answer is the same
        raise ValueError(f"No model called {name!r} with safetensors came from the hub.") from error


def adopt(archive: str) -> str:
    """Serve an uploaded checkpoint, a zip of its folder as this app makes them, as a base; its name.

    Raises:
        ValueError: if it is no such thing.
    """
    checkpoints, _ = _library()
    folder = Path(tempfile.mkdtemp(prefix="mars-base-"))
    try:
        with zipfile.ZipFile(archive) as packed:
            entries = [e for e in packed.infolist() if not e.is_dir() and "/" not in e.filename.strip("/")]
            if sum(entry.file_size for entry in entries) > LARGEST_UPLOAD:
                raise ValueError(f"The checkpoint is larger than {LARGEST_UPLOAD >> 20} MiB.")
            for entry in entries:
                if Path(entry.filename).suffix in (".json", ".jinja", ".safetensors"):
                    packed.extract(entry, folder)
        checkpoints.load(str(folder))  # it must be one
    except (zipfile.BadZipFile, ValueError) as error:
        shutil.rmtree(folder)
        raise ValueError(f"{Path(archive).name} is no zipped checkpoint: {error}") from error
    name = f"{Path(archive).stem}-{secrets.token_hex(2)}"
    with _lock:
        _uploaded[name] = str(folder)
        for old in list(_uploaded)[:-TRAINED]:
            shutil.rmtree(_uploaded.pop(old), ignore_errors=True)
    return name


def keep(checkpoint) -> str:
    """Serve a checkpoint that was trained here to whoever knows its name, until newer ones push it out."""
    with _lock:
        _trained[checkpoint.name] = checkpoint
        for old in list(_trained)[:-TRAINED]:
            del _trained[old]
    return checkpoint.name


def decode(name: str | None, prompt: str, **settings) -> Run:
    """A run of that model, not yet begun; `settings` are those of `decoding.decode`.

    Raises:
        ValueError: if one of them is out of its range.
    """
    _, decoding = _library()
    return decoding.decode(load(name), prompt, **settings)


def warm_up() -> None:
    """Load the best model and run it once, so that the first visitor need not wait for that."""
    if names():
        decode(None, "Hello", max_new_tokens=2).finish()
