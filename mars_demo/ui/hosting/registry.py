"""The registry of the page's models: those that the operator serves, and one trained by each visitor.

Only the visitor who trained a model can use it. Gradio sets `LocalContext.request` in the thread of every
handler and of every step of a generator, and `Registry.visitor` reads it. So a name is looked up in the
thread of its handler. On ZeroGPU, a function runs in a process that was forked earlier: the call carries
the `Caller`, and `Registry.act_for` takes over their model there.
"""

from __future__ import annotations

import argparse
import pickle
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from gradio.context import LocalContext

from mars_demo.core.limits import LIMITS
from mars_demo.core.names import BASE, TINY, bundled
from mars_demo.decoding.pace import measured
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.device import usable
from mars_demo.models.facts import facts
from mars_demo.models.load import load_checkpoint
from mars_demo.models.pool import Member, Pool
from mars_demo.models.precision import dense_dtype


@dataclass(eq=False, kw_only=True)
class Trained(Member):
    """A visitor's model, which is in memory only.

    owner: the visitor's session. recipe: the text of its `recipe.json`. ticket: the secret that its one
    download needs; None after it.
    """

    owner: str | None
    recipe: str = ""
    ticket: str | None = None


class Caller(NamedTuple):
    """The caller of a function in another process: their session, and their pickled checkpoints."""

    visitor: str | None
    models: dict[str, bytes]


class Registry(Pool):
    """The models of the page by name, each with the costs of its forwards.

    If the operator leaves out the models of the lessons, these are not among the names, but can be loaded.
    """

    def __init__(self):
        self._trained: dict[str, Trained] = {}
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
        return model if model and model.owner == self.visitor() else None

    def reserve(self) -> str:
        """Return a name for a new model of the visitor; delete their earlier model.

        Raises:
            ValueError: if there are too many models of other visitors.
        """
        self.delete_of(self.visitor())
        if len(self._trained) >= LIMITS.trained:
            raise ValueError(
                f"There are {LIMITS.trained} trained models here, which is the limit. Try again later."
            )
        return f"mine-{secrets.token_hex(4)}"

    def keep(self, name: str, folder: Path, device: str | None) -> Trained:
        """Load a trained model of the visitor from a folder, which is not needed afterwards.

        Raises:
            ValueError: as `load_checkpoint`.
        """
        dtype = dense_dtype(self.dtype, usable(device))  # quantized weights would need the folder again
        loaded = measured(load_checkpoint(str(folder), device, dtype))
        self._trained[name] = model = Trained(
            name,
            name,
            "ready",
            facts=facts(loaded),
            checkpoint=replace(loaded, name=name, source=None),
            owner=self.visitor() or secrets.token_hex(16),  # nobody can use it without a session
            recipe=(folder / "recipe.json").read_text("utf-8"),
            ticket=secrets.token_hex(16),
        )
        return model

    def redeem(self, ticket: str) -> Trained | None:
        """Return the model whose download has this ticket, for the only time."""
        for model in [*self._trained.values()]:
            if model.ticket == ticket:
                model.ticket = None
                return model
        return None

    def delete(self, name: str) -> None:
        """Delete a visitor's model; a run that uses it goes on."""
        self._trained.pop(name, None)

    def delete_of(self, owner: str | None) -> None:
        """Delete the model of a visitor."""
        for model in [*self._trained.values()]:
            if model.owner == owner:
                self.delete(model.name)

    # --------------------------------------------------------------- processes for a lent GPU

    def caller(self) -> Caller:
        """Return this visitor and their models, for a call in another process."""
        own = {name: model for name in [*self._trained] if (model := self.own(name))}
        return Caller(
            self.visitor(),
            {name: pickle.dumps(replace(model.checkpoint, costs=None)) for name, model in own.items()},
        )

    def act_for(self, caller: Caller) -> None:
        """Replace this process's trained models by those of a caller, moved to this process's device."""
        self._caller, earlier, self._trained = caller.visitor, self._trained, {}
        for name, pickled in caller.models.items():
            model = earlier.get(name)
            if model is None or model.checkpoint.device.type != usable():
                checkpoint = pickle.loads(pickled)
                checkpoint.model.to(usable())
                model = Trained(name, name, "ready", checkpoint=measured(checkpoint), owner=caller.visitor)
            self._trained[name] = model


MODELS = Registry()
