"""The models of the page: those that its owner serves, and those that visitors trained or uploaded."""

import argparse
import contextlib
import json
import secrets
import shutil
import tempfile
import threading
import weakref
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from mars_demo.assets import ASSETS, read_json
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.models.names import bundled
from mars_demo.models.pool import Pool, library
from mars_demo.ui.idle import IDLE
from mars_demo.views import recordings

TRAINED = 4  # checkpoints that visitors have trained or uploaded and that are kept, the newest
LARGEST_BASE = 200_000_000  # parameters of a base
LARGEST_UPLOAD = 600 << 20  # bytes, unpacked
TINY = "mars-tiny"  # it knows the built-in worlds, which lessons, batches and trainings are about

_pool = Pool(bundled())
_lessons = Pool([TINY])  # where the owner leaves out the bundled models
_trained = {}
_folders = {}  # where trained checkpoints lie
_uploaded = {}
_measured = weakref.WeakKeyDictionary()  # models and what their forwards cost; None while unknown
_lock = threading.RLock()


def serve(options: argparse.Namespace) -> None:
    """Serve the models that the owner names, before a page is built: see `ui.options`."""
    global _pool
    named = options.models
    own = [] if options.only else [name for name in bundled() if name not in named]
    _pool = Pool([*named, *own], options.device, options.dtype, options.block_size)


def names() -> list[str]:
    """What a visitor may choose from, the default first."""
    return _pool.names()


def is_served(name: str) -> bool:
    return name in _pool.names()


def is_known(name: str) -> bool:
    """Whether it is served, or was trained here and is still kept."""
    return is_served(name) or name in _trained


def recorded() -> list[dict]:
    """The recorded runs of the models that are served, those of the default model first."""
    served = names()
    shown = [entry for entry in recordings.index() if entry["model"] in served]
    return sorted(shown, key=lambda entry: entry["model"] != served[0])


def knows(name: str) -> str | None:
    """What a model was trained on, in a sentence; None of those about which nothing is written."""
    return read_json("models.json").get(name)


def knows_worlds(name: str) -> bool:
    """Whether a model was trained on the built-in worlds alone: the tiny ones, and those made of them."""
    return name in _trained or not is_served(name) or name in ("ar-tiny", TINY)


def card(name: str) -> str:
    """The model card of a bundled model without its front matter; empty where there is none."""
    path = ASSETS / name / "README.md"
    if name not in bundled() or not path.exists():
        return ""
    return path.read_text("utf-8").split("---\n", 2)[-1].strip()


def state(name: str) -> str:
    """How far a model is and what it is, as the value of `ModelFacts`."""
    if name in _trained:
        _, _, facts = library()
        return _told("ready", facts=facts.facts(_trained[name]))
    found = _pool.member(name)
    return _told(found.phase, found.done, found.total, found.problem, found.facts)


def _told(phase, done=0, total=0, problem=None, facts=None) -> str:
    shown = facts.shown() if facts else []
    told = {"phase": phase, "done": done, "total": total, "problem": problem, "facts": shown}
    return json.dumps(told)


def is_settled(name: str) -> bool:
    """Whether a model is there or cannot be had, so that nothing about it is going to change."""
    return name in _trained or _pool.member(name).phase in ("ready", "failed")


def modes(name: str) -> tuple[str, ...] | None:
    """The modes that a model has, its default first; None before it is known."""
    if name in _trained:
        return _trained[name].modes
    facts = _pool.member(name).facts
    return facts and facts.modes


def begin(name: str) -> None:
    """Begin to load a model that is served, unless that was done."""
    if name not in _trained:
        _pool.begin(name)


def load(name: str | None = None):
    """The checkpoint of that name, or the default one. Waits until it is there.

    Raises:
        ValueError: if it is none that is served or cannot be had: visitors do not make the server fetch or
            open anything.
    """
    if name in _trained:
        return _trained[name]
    if name == TINY and not is_served(TINY):
        return _lessons.load()
    return _pool.load(name)


def fresh(name: str):
    """A private copy of a checkpoint, in float32, to train: a served or an uploaded one.

    Raises:
        ValueError: if it is neither, or too large.
    """
    loading, _, _ = library()
    import torch

    if name in _uploaded:
        return loading.load_checkpoint(_uploaded[name], dtype=torch.float32)
    if not is_served(name):
        raise ValueError(f"Unknown base {name!r}. Choose from {', '.join([*names(), *_uploaded])}.")
    _pool.load(name)
    member = _pool.member(name)
    if member.facts.parameters > LARGEST_BASE:
        raise ValueError(
            f"{name} has {member.facts.parameters / 1e6:.0f} million parameters. "
            f"At most {LARGEST_BASE / 1e6:.0f} million can be trained here."
        )
    return loading.load_checkpoint(member.source, dtype=torch.float32)


def adopt(archive: str) -> str:
    """Serve an uploaded checkpoint, a zip of its folder as this app makes them, as a base; its name.

    Raises:
        ValueError: if it is no such thing.
    """
    loading, _, _ = library()
    folder = Path(tempfile.mkdtemp(prefix="mars-base-"))
    try:
        with zipfile.ZipFile(archive) as packed:
            entries = [e for e in packed.infolist() if not e.is_dir() and "/" not in e.filename.strip("/")]
            if sum(entry.file_size for entry in entries) > LARGEST_UPLOAD:
                raise ValueError(f"The checkpoint is larger than {LARGEST_UPLOAD >> 20} MiB.")
            for entry in entries:
                if Path(entry.filename).suffix in (".json", ".jinja", ".safetensors"):
                    packed.extract(entry, folder)
        loading.load_checkpoint(str(folder), device="cpu")  # it must be one
    except (zipfile.BadZipFile, ValueError) as error:
        shutil.rmtree(folder)
        raise ValueError(f"{Path(archive).name} is not a zipped checkpoint: {error}") from error
    name = f"{Path(archive).stem}-{secrets.token_hex(2)}"
    with _lock:
        _uploaded[name] = str(folder)
        for old in list(_uploaded)[:-TRAINED]:
            shutil.rmtree(_uploaded.pop(old), ignore_errors=True)
    return name


def serve_trained(checkpoint) -> str:
    """Serve a checkpoint that was trained here to whoever knows its name, until newer ones push it out."""
    with _lock:
        _trained[checkpoint.name] = checkpoint
        for old in list(_trained)[:-TRAINED]:
            del _trained[old]
            _folders.pop(old, None)
    return checkpoint.name


def known() -> dict[str, dict[str, str]]:
    """What another process of this app may not know yet: where visitors' checkpoints lie."""
    return {"trained": dict(_folders), "uploaded": dict(_uploaded)}


def learn(known: dict[str, dict[str, str]]) -> None:
    """Know the checkpoints of `known`, those that were trained on this process's own device."""
    _uploaded.update(known["uploaded"])
    for name, folder in known["trained"].items():
        loading, _, _ = library()
        if name not in _trained or _trained[name].model.device.type != loading.usable():
            serve_trained(replace(loading.load_checkpoint(folder), name=name))


def know_trained(name: str, folder: str) -> str:
    """Serve a checkpoint that may have been trained in another process, from its folder; its name. In this
    process it is only looked at."""
    if name not in _trained:
        loading, _, _ = library()
        serve_trained(replace(loading.load_checkpoint(folder, device="cpu"), name=name))
    _folders[name] = folder
    return name


def decode(name: str | None, prompt: str, request: Request, **more: Any) -> Run:
    """A run of that model, not yet begun. `more` is as in `decoding.decode`.

    Raises:
        ValueError: as `decoding.decode`, or if there is no such model here.
    """
    checkpoint = load(name)
    from mars_demo.decoding.decode import decode  # imports torch, which loading has done by now

    return decode(checkpoint, prompt, replace(request, costs=_costs(checkpoint)), **more)


def _costs(checkpoint):
    """What its forwards cost, if that is known; if not, it begins to be measured while nothing runs."""
    from mars_demo.decoding import cost_store, costs

    if not costs.is_measurable(checkpoint) or cost_store.folder() is None:
        return None
    with _lock:
        if checkpoint.model not in _measured:
            _measured[checkpoint.model] = cost_store.load(checkpoint)
            if _measured[checkpoint.model] is None:
                threading.Thread(target=_measure, args=[checkpoint], daemon=True).start()
        return _measured[checkpoint.model]


def _measure(checkpoint) -> None:
    """Measure what its forwards cost, one at a time while nothing runs."""
    from mars_demo.decoding import cost_store, costs

    steps = costs.measuring(checkpoint)
    try:
        while True:
            with IDLE.step():
                next(steps)
    except StopIteration as end:
        if end.value:
            cost_store.save(checkpoint, end.value)
            _measured[checkpoint.model] = end.value


def warm_up() -> None:
    """Load the models and run the first one once, so that the first visitor need not wait for that."""
    with IDLE.visit():  # its costs are measured afterwards
        with contextlib.suppress(ValueError):  # the page says what is wrong with it
            decode(None, "Hello", Request(max_new_tokens=2)).finish()
        _pool.load_all()


def load_all() -> None:
    """Load every model that is served, and the one of the lessons."""
    _pool.load_all()
    with contextlib.suppress(ValueError):
        load(TINY)
