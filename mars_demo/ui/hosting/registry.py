"""The registry of the page's models: those that the operator serves, and one trained by each visitor.

Only the visitor who trained a model can use it. Gradio sets `LocalContext.request` in the thread of every
handler and of every step of a generator, and `Registry.visitor` reads it. So a name is looked up in the
thread of its handler. On ZeroGPU, a function runs in a process that was forked earlier: the call carries
the `Caller`, and `Registry.act_for` loads their model there.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gradio.context import LocalContext

from mars_demo.core.limits import LIMITS
from mars_demo.core.names import BASE, TINY, bundled
from mars_demo.decoding.pace import measured
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.device import usable
from mars_demo.models.pool import Member, Pool
from mars_demo.ui.hosting.storage import storage

MINUTE = 60  # seconds


@dataclass(eq=False, kw_only=True)
class Trained(Member):
    """A visitor's model, whose source is its folder. Until it is ready, the folder is being filled."""

    owner: str | None

    @property
    def folder(self) -> Path:
        return Path(self.source)

    @property
    def archive(self) -> Path:
        """Return the zip of its folder, if there is one; Gradio serves the files beside it."""
        return storage().gradio / f"{self.name}.zip"


class Caller(NamedTuple):
    """The caller of a function in another process: their session, and the folders of their models."""

    visitor: str | None
    folders: dict[str, str]


class Registry(Pool):
    """The models of the page by name, each with the costs of its forwards.

    If the operator leaves out the models of the lessons, these are not among the names, but can be loaded.
    """

    def __init__(self):
        self._trained: dict[str, Trained] = {}
        self._reserving = threading.Lock()
        self._caller: str | None = None  # in the other process
        self._serve(bundled())

    def _serve(self, sources: list[str], *settings) -> None:
        super().__init__(sources, *settings)
        self._served = super().names()
        for name in (TINY, BASE):
            self._members.setdefault(name, Member(name, name))

    def serve(self, options: argparse.Namespace) -> None:
        """Serve the models that the operator names (see `ui.options`); call this before building a page."""
        named = options.models
        more = [] if options.only else [name for name in bundled() if name not in named]
        self._serve([*named, *more], options.device, options.dtype, options.block_size)

    def names(self) -> list[str]:
        """Return the names of the served models, the default first."""
        return self._served

    def choices(self) -> list[str]:
        """Return the names in the visitor's model list."""
        return [*self._served, *filter(self.own, [*self._trained])]

    def _read(self, member: Member) -> Checkpoint:
        return measured(super()._read(member))

    def member(self, name: str | None) -> Member:
        """Return the visitor's own or a served model, or the default model for None.

        Raises:
            ValueError: if there is no such model.
        """
        return self.own(name) or super().member(name)

    def load_all(self) -> None:
        """Load the operator's models and that of the lessons."""
        for name in (*self._served, TINY):
            self._try(name)

    # ------------------------------------------------------------------------- models of visitors

    def visitor(self) -> str | None:
        """Return the caller of this thread's handler: a session hash that only their page or client has.

        The result is None outside of handlers.
        """
        request = LocalContext.request.get(None)
        return request.session_hash if request else self._caller

    def own(self, name: str | None) -> Trained | None:
        """Return the model of that name if the visitor has trained it."""
        model = self._trained.get(name) if isinstance(name, str) else None
        return model if model and model.phase == "ready" and model.owner == self.visitor() else None

    def reserve(self, device: str | None = None) -> Trained:
        """Reserve a name and an empty folder for a new model of the visitor; delete their earlier model.

        device: of the model; None for that of the served models.

        Raises:
            ValueError: if there are too many models of other visitors.
        """
        owner = self.visitor() or secrets.token_hex(16)  # nobody can use a model trained without a session
        with self._reserving:
            self.delete_of(owner)
            if len(self._trained) >= LIMITS.trained:
                raise ValueError(
                    f"There are {LIMITS.trained} trained models here, which is the limit. Try again later."
                )
            name, folder = f"mine-{secrets.token_hex(4)}", str(storage().folder())
            model = Trained(name, folder, device=device, owner=owner)
            self._trained[model.name] = model
        return model

    def register(self, model: Trained) -> None:
        """Load a trained model from its folder; delete it after `LIMITS.kept` minutes.

        Raises:
            ValueError: if it cannot be loaded.
        """
        self._bring(model)
        timer = threading.Timer(MINUTE * LIMITS.kept, self.delete, [model.name])
        timer.daemon = True
        timer.start()

    def delete(self, name: str) -> None:
        """Delete a visitor's model and its files; a run that uses it goes on."""
        if model := self._trained.pop(name, None):
            model.archive.unlink(missing_ok=True)
            shutil.rmtree(model.folder, ignore_errors=True)

    def delete_of(self, owner: str) -> None:
        """Delete the model of a visitor. A training deletes its own unfinished model."""
        for model in [*self._trained.values()]:
            if model.owner == owner and model.phase == "ready":
                self.delete(model.name)

    # --------------------------------------------------------------- processes for a lent GPU

    def caller(self) -> Caller:
        """Return this visitor and their models, for a call in another process."""
        names = filter(self.own, [*self._trained])
        return Caller(self.visitor(), {name: self._trained[name].source for name in names})

    def act_for(self, caller: Caller) -> None:
        """Replace this process's trained models by those of a caller, loaded to this process's device."""
        self._caller, earlier, self._trained = caller.visitor, self._trained, {}
        for name, folder in caller.folders.items():
            model = earlier.get(name)
            if model is None or model.checkpoint.model.device.type != usable():
                model = Trained(name, folder, owner=caller.visitor)
                self._bring(model)
            self._trained[name] = model


MODELS = Registry()
