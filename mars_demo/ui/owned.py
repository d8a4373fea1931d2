"""Models trained by visitors, one each. Only the visitor who trained a model can name it.

Gradio sets `LocalContext.request` around every handler and every step of a generator, in whichever thread
that runs, and `visitor` reads it; so a name is looked up in the thread of the handler. On ZeroGPU a
function runs in a process that was forked earlier: `known` goes along with the call and says who calls and
where their model is, and `learn` sets that there.

A model is deleted with its files when its owner leaves or trains another one, and after `LIMITS.kept`
minutes.
"""

from __future__ import annotations

import secrets
import shutil
import threading
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gradio.context import LocalContext

from mars_demo.limits import LIMITS
from mars_demo.models.pool import library
from mars_demo.ui import visitors
from mars_demo.ui.storage import storage

if TYPE_CHECKING:
    from mars_demo.models.checkpoint import Checkpoint

MINUTE = 60  # seconds


@dataclass(eq=False)
class Owned:
    """A visitor's model.

    ready: it can be used; before that its slot is taken and its folder is being filled.
    files: those outside of its folder that are deleted with it.
    """

    name: str
    owner: str
    folder: Path
    ready: bool = False
    checkpoint: Checkpoint | None = None
    files: list[Path] = field(default_factory=list)


class Known(NamedTuple):
    """What another process has to know for a call: who calls, and the folders of their models by name."""

    visitor: str | None
    folders: dict[str, str]


_models: dict[str, Owned] = {}
_lock = threading.RLock()
_caller: ContextVar[str | None] = ContextVar("visitor", default=None)  # in the other process


def visitor() -> str | None:
    """Return who called the handler that runs in this thread: the session's hash, which only that visitor's
    page or client knows. None where nobody did."""
    request = LocalContext.request.get(None)
    return request.session_hash if request else _caller.get()


def of_visitor(name: str | None) -> Owned | None:
    """Return the model of that name if the visitor owns it."""
    model = _models.get(name) if isinstance(name, str) else None
    return model if model and model.ready and model.owner == visitor() else None


def trained(name: str | None) -> Checkpoint | None:
    """Return the checkpoint of that name if the visitor has trained it."""
    model = of_visitor(name)
    return model and model.checkpoint


def take_slot() -> Owned:
    """Take a slot and an empty folder for a new model of the visitor; it replaces their earlier one.

    Raises:
        ValueError: if all slots are taken by others.
    """
    request = LocalContext.request.get(None)
    owner = visitor() or secrets.token_hex(16)  # a call without a session owns what nobody can name
    with _lock:
        forget(owner)
        if len(_models) >= LIMITS.trained:
            raise ValueError(
                f"{LIMITS.trained} trained models are kept here at once, which is the limit. Try again "
                "later."
            )
        model = Owned(f"mine-{secrets.token_hex(4)}", owner, storage().folder())
        _models[model.name] = model
    if request and request.session_hash:
        visitors.at_leaving(request, forget, owner)
    return model


def keep(model: Owned) -> None:
    """Call a model ready, and delete it after `LIMITS.kept` minutes."""
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
    """Delete the model of a visitor. One that is being trained is dropped by its training."""
    with _lock:
        mine = [one for one in _models.values() if one.owner == owner and one.ready]
    for model in mine:
        drop(model)


def hold(name: str, checkpoint: Checkpoint, folder: Path) -> None:
    """Keep a checkpoint that was trained in this process, which may be one for a lent GPU."""
    with _lock:
        if name not in _models:
            _models[name] = Owned(name, visitor() or "", folder, ready=True)
        _models[name].checkpoint = checkpoint


# --------------------------------------------------------------------- processes for a lent GPU


def known() -> Known:
    """Return what another process of this app has to know for a call of this visitor."""
    with _lock:
        mine = {name: str(one.folder) for name, one in _models.items() if of_visitor(name)}
    return Known(visitor(), mine)


def learn(known: Known) -> None:
    """Know the caller and the caller's models, and no others; they are loaded to this process's device."""
    _caller.set(known.visitor)
    with _lock:
        for name in set(_models) - set(known.folders):
            del _models[name]
    for name, folder in known.folders.items():
        loading, _, _ = library()
        here = _models.get(name)
        if here is None or here.checkpoint.model.device.type != loading.usable():
            checkpoint = replace(loading.load_checkpoint(folder), name=name)
            _models[name] = Owned(name, known.visitor, Path(folder), True, checkpoint)
