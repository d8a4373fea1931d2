"""Models of visitors: bases that they uploaded and checkpoints that they trained. Each has an owner, the
visitor who made it, and for everybody else its name does not exist.

Whose call it is need not be handed on from function to function: Gradio sets `LocalContext.request` around
every handler and around every step of a generator, in whichever thread that runs, and `visitor` reads it.
So a name has to be looked up in the thread of the handler. On ZeroGPU a function runs in a process that was
forked earlier: `known` goes along with the call and says who calls and where their models lie, and `learn`
sets that there for the call.

A model is forgotten, with its files, when its owner leaves, after `LIMITS.kept` minutes, and when the owner
makes another one while there are `LIMITS.uploads` already.
"""

from __future__ import annotations

import secrets
import shutil
import threading
import time
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

LOOK_EVERY = 30  # seconds between looks for models that were kept long enough


@dataclass(eq=False)
class Owned:
    """A model of a visitor's.

    trained: it was trained here and can be raced; else it was uploaded and is a base to train.
    ready: it can be used; before that its place is taken and its folder is filled.
    checkpoint: of a trained model, loaded.
    files: outside of its folder, which go with it.
    """

    name: str
    owner: str
    folder: Path
    trained: bool
    ready: bool = False
    checkpoint: Checkpoint | None = None
    files: list[Path] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)


class Known(NamedTuple):
    """What another process has to know for a call: who calls, and the folders of their models."""

    visitor: str | None
    trained: dict[str, str]
    uploaded: dict[str, str]


_models: dict[str, Owned] = {}
_lock = threading.RLock()
_told: ContextVar[str | None] = ContextVar("visitor", default=None)  # in the other process
_watching = False


def visitor() -> str | None:
    """Who called the handler that runs in this thread: the session's hash, which only that visitor's page
    or client knows. None where nobody did."""
    request = LocalContext.request.get(None)
    return request.session_hash if request else _told.get()


def of_visitor(name: str | None) -> Owned | None:
    """The model of that name, if the visitor owns it."""
    found = _models.get(name) if isinstance(name, str) else None
    mine = found and found.ready and found.owner == visitor()
    return found if mine else None


def trained(name: str | None) -> Checkpoint | None:
    """The checkpoint of that name, if the visitor has trained it."""
    found = of_visitor(name)
    return found and found.checkpoint


def base(name: str | None) -> Path | None:
    """The folder of an uploaded base of that name, if the visitor has uploaded it."""
    found = of_visitor(name)
    return found.folder if found and not found.trained else None


def bases() -> list[str]:
    """The names of the visitor's uploaded bases."""
    with _lock:
        return [name for name, one in _models.items() if of_visitor(name) and not one.trained]


def take_place(stem: str, is_trained: bool) -> Owned:
    """A place and an empty folder for a new model of the visitor's. Where all places are taken, their own
    oldest model makes room.

    Raises:
        ValueError: if all places are taken by others.
    """
    request = LocalContext.request.get(None)
    owner = visitor() or secrets.token_hex(16)  # a call without a session owns what nobody can name
    with _lock:
        while len(_models) >= LIMITS.uploads:
            oldest = next((one for one in _models.values() if one.owner == owner and one.ready), None)
            if oldest is None:
                raise ValueError(
                    f"{LIMITS.uploads} uploaded and trained models are kept here at once, which is the "
                    "limit. Try again later."
                )
            drop(oldest)
        found = Owned(f"{stem}-{secrets.token_hex(4)}", owner, storage().folder(owner), is_trained)
        _models[found.name] = found
    if request and request.session_hash:
        visitors.at_leaving(request, forget, owner)
    _watch()
    return found


def drop(model: Owned) -> None:
    """Forget a model and remove its files."""
    with _lock:
        _models.pop(model.name, None)
        was_last = not any(one.owner == model.owner for one in _models.values())
    model.checkpoint = None
    for file in model.files:
        file.unlink(missing_ok=True)
    shutil.rmtree(model.folder, ignore_errors=True)
    if was_last:
        storage().forget(model.owner)


def forget(owner: str) -> None:
    """All that a visitor has. A model that is being made is dropped by who makes it."""
    with _lock:
        mine = [one for one in _models.values() if one.owner == owner and one.ready]
    for model in mine:
        drop(model)


def hold(name: str, checkpoint: Checkpoint, folder: Path) -> None:
    """A checkpoint that was trained in this process, which may be one for a lent GPU."""
    with _lock:
        if name not in _models:
            _models[name] = Owned(name, visitor() or "", folder, True, True)
        _models[name].checkpoint = checkpoint


def forget_old() -> None:
    """Forget what was kept for `LIMITS.kept` minutes."""
    with _lock:
        found = list(_models.values())
    for model in found:
        if model.ready and time.monotonic() - model.since >= LIMITS.kept * 60:
            drop(model)


def _watch() -> None:
    """Let a thread look for old models from now on."""
    global _watching
    with _lock:
        if _watching:
            return
        _watching = True

    def look() -> None:
        while True:
            time.sleep(LOOK_EVERY)
            forget_old()

    threading.Thread(target=look, daemon=True).start()


# --------------------------------------------------------------------- processes for a lent GPU


def known() -> Known:
    """What another process of this app has to know for a call of this visitor's."""
    with _lock:
        mine = [one for name, one in _models.items() if of_visitor(name)]
    return Known(
        visitor(),
        trained={one.name: str(one.folder) for one in mine if one.trained},
        uploaded={one.name: str(one.folder) for one in mine if not one.trained},
    )


def learn(known: Known) -> None:
    """Know the caller and the caller's models, and no others: those that were trained are loaded to this
    process's own device."""
    _told.set(known.visitor)
    with _lock:
        for name in set(_models) - set(known.trained) - set(known.uploaded):
            del _models[name]
    for name, folder in known.uploaded.items():
        _models[name] = Owned(name, known.visitor, Path(folder), False, ready=True)
    for name, folder in known.trained.items():
        loading, _, _ = library()
        here = _models.get(name)
        if here is None or here.checkpoint.model.device.type != loading.usable():
            checkpoint = replace(loading.load_checkpoint(folder), name=name)
            _models[name] = Owned(name, known.visitor, Path(folder), True, True, checkpoint)
