"""Models trained by visitors, one each. Only the visitor who trained a model can use it.

Gradio sets `LocalContext.request` in the thread of every handler and of every step of a generator, and
`visitor` reads it. So a name is looked up in the thread of its handler. On ZeroGPU, a function runs in a
process that was forked earlier: the call carries the `caller`, with the folders of their models, and
`adopt` registers them there.

A model is deleted with its files when its visitor leaves or trains another one, and after `LIMITS.kept`
minutes.
"""

from __future__ import annotations

import secrets
import shutil
import threading
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from gradio.context import LocalContext

from mars_demo.limits import LIMITS
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.device import usable
from mars_demo.models.load import load_checkpoint
from mars_demo.ui.hosting import visitors
from mars_demo.ui.hosting.storage import storage

MINUTE = 60  # seconds


@dataclass(eq=False)
class Owned:
    """A visitor's model.

    ready: whether it can be used; before that, its slot is taken and its folder is being filled.
    files: files outside of its folder that are deleted with it.
    """

    name: str
    owner: str
    folder: Path
    ready: bool = False
    checkpoint: Checkpoint | None = None
    files: list[Path] = field(default_factory=list)


class Caller(NamedTuple):
    """The caller of a function in another process: their session, and their models' folders by name."""

    visitor: str | None
    folders: dict[str, str]


_models: dict[str, Owned] = {}
_lock = threading.RLock()
_caller: ContextVar[str | None] = ContextVar("visitor", default=None)  # in the other process


def visitor() -> str | None:
    """Return the caller of this thread's handler: a session hash that only their page or client has.

    The result is None outside of handlers.
    """
    request = LocalContext.request.get(None)
    return request.session_hash if request else _caller.get()


def of_visitor(name: str | None) -> Owned | None:
    """Return the model of that name if it is the visitor's own."""
    model = _models.get(name) if isinstance(name, str) else None
    return model if model and model.ready and model.owner == visitor() else None


def trained(name: str | None) -> Checkpoint | None:
    """Return the checkpoint of that name if the visitor has trained it."""
    model = of_visitor(name)
    return model and model.checkpoint


def take_slot() -> Owned:
    """Take a slot and an empty folder for a new model of the visitor; delete their earlier model.

    Raises:
        ValueError: if other visitors have taken all slots.
    """
    request = LocalContext.request.get(None)
    owner = visitor() or secrets.token_hex(16)  # nobody can use the model of a call without a session
    with _lock:
        forget(owner)
        if len(_models) >= LIMITS.trained:
            raise ValueError(
                f"There are {LIMITS.trained} trained models here, which is the limit. Try again later."
            )
        model = Owned(f"mine-{secrets.token_hex(4)}", owner, storage().folder())
        _models[model.name] = model
    if request and request.session_hash:
        visitors.at_leaving(request, forget, owner)
    return model


def keep(model: Owned) -> None:
    """Mark a model as ready; delete it after `LIMITS.kept` minutes."""
    model.ready = True
    timer = threading.Timer(MINUTE * LIMITS.kept, drop, [model])
    timer.daemon = True
    timer.start()


def drop(model: Owned) -> None:
    """Delete a model and its files."""
    with _lock:
        _models.pop(model.name, None)
    model.checkpoint = None
    for file in model.files:
        file.unlink(missing_ok=True)
    shutil.rmtree(model.folder, ignore_errors=True)


def forget(owner: str) -> None:
    """Delete the model of a visitor. A training deletes its own unfinished model."""
    with _lock:
        models = [model for model in _models.values() if model.owner == owner and model.ready]
    for model in models:
        drop(model)


def hold(name: str, checkpoint: Checkpoint, folder: Path) -> None:
    """Keep a checkpoint that was trained in this process, which may be a forked one."""
    with _lock:
        if name not in _models:
            _models[name] = Owned(name, visitor() or "", folder, ready=True)
        _models[name].checkpoint = checkpoint


# --------------------------------------------------------------------- processes for a lent GPU


def caller() -> Caller:
    """Return this visitor and their models, for a call in another process."""
    with _lock:
        folders = {name: str(model.folder) for name, model in _models.items() if of_visitor(name)}
    return Caller(visitor(), folders)


def adopt(caller: Caller) -> None:
    """Replace this process's models by those of a caller, loaded to this process's device."""
    _caller.set(caller.visitor)
    with _lock:
        for name in set(_models) - set(caller.folders):
            del _models[name]
    for name, folder in caller.folders.items():
        model = _models.get(name)
        if model is None or model.checkpoint.model.device.type != usable():
            checkpoint = replace(load_checkpoint(folder), name=name)
            _models[name] = Owned(name, caller.visitor, Path(folder), True, checkpoint)
