"""The pool of an app's models: loaded once, shared by all visitors, and evicted when memory is short."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch

from mars_demo.core import background
from mars_demo.core.names import bundled, locate
from mars_demo.models import facts, hub, load, memory
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.facts import Facts

RETRY_AFTER = 60  # seconds until a failed load may be retried, since an unreachable hub may be back


class NoRoom(ValueError):
    """An error for too little memory to load a model."""


@dataclass(eq=False)
class Member:
    """A model of a pool, with its public name, its source and the progress of its loading."""

    name: str
    source: str
    phase: str = "waiting"  # then fetching, loading, and ready or failed
    done: int = 0  # bytes of the phase so far; 0 if unknown
    total: int = 0  # bytes of the phase; 0 if unknown
    problem: str | None = None  # the reason of a failure, in a sentence
    facts: Facts | None = None  # known after the first load
    checkpoint: Checkpoint | None = None
    used: float = 0.0
    failed: float = 0.0
    block_size: int | None = None  # masks per block, if its files and its name may not state it
    device: str | None = None  # None for that of the pool
    lock: threading.RLock = field(default_factory=threading.RLock)

    def report(self, phase: str, done: int = 0, total: int = 0) -> None:
        """Record the progress of loading."""
        self.phase, self.done, self.total = phase, done, total


class Pool:
    """A thread-safe pool of models by name, each loaded on first use.

    sources: bundled names, folders, GGUF files and hub ids; the first one is the default.
    device, dtype: arguments of `load_checkpoint` for all models.
    block_size: masks per block of models that are not bundled; None to read it from the models.
    """

    def __init__(
        self,
        sources: Sequence[str],
        device: str | None = None,
        dtype: str = "auto",
        block_size: int | None = None,
    ):
        self.device, self.dtype = device, dtype
        self._members = {
            name: Member(name, source, block_size=None if source in bundled() else block_size)
            for name, source in labels(sources).items()
        }
        # Two models must not count on the same free memory.
        self._one_at_a_time = threading.Lock()

    def names(self) -> list[str]:
        """Return the names of all models, the default first."""
        return list(self._members)

    def member(self, name: str | None) -> Member:
        """Return the model with a name, or the default model for None.

        Raises:
            ValueError: if there is no such model.
        """
        name = next(iter(self._members), None) if name is None else name
        if name not in self._members:
            raise ValueError(f"Unknown model {name!r}. Choose from {', '.join(self.names()) or 'none'}.")
        return self._members[name]

    def load(self, name: str | None = None, evict: bool = True) -> Checkpoint:
        """Return the checkpoint with a name, after loading it if necessary.

        evict: whether to evict the least recently used models if memory is short.

        Raises:
            ValueError: if there is no such model, it cannot be loaded, or memory does not suffice.
        """
        member = self.member(name)
        with member.lock:
            member.used = time.monotonic()
            if member.checkpoint is None:
                self._bring(member, evict)
            return member.checkpoint

    def begin(self, name: str) -> None:
        """Start loading a model in the background, unless it is loaded or being loaded."""
        if self.member(name).phase in ("waiting", "failed"):
            background.start(self._try, name)

    def load_all(self) -> None:
        """Load one model after the other while memory suffices; the others load on first use."""
        for name in self.names():
            self._try(name, evict=False)

    def _try(self, name: str, evict: bool = True) -> None:
        with suppress(ValueError):  # the member keeps the error
            self.load(name, evict)

    def _bring(self, member: Member, evict: bool) -> None:
        """Fetch and load a model, or record the error."""
        if member.problem and time.monotonic() - member.failed < RETRY_AFTER:
            raise ValueError(member.problem)
        try:
            checkpoint = replace(self._loaded(member, evict), name=member.name)
        except NoRoom:
            member.report("waiting")
            raise
        except Exception as error:
            # Broken files raise many types, and none may leave visitors waiting for this model.
            member.problem = (str(error) or type(error).__name__).replace(member.source, member.name)
            member.failed = time.monotonic()
            member.report("failed")
            raise ValueError(member.problem) from error
        member.checkpoint, member.facts, member.problem = checkpoint, facts.facts(checkpoint), None
        member.report("ready")

    def _loaded(self, member: Member, evict: bool) -> Checkpoint:
        path = locate(member.source)
        if not Path(path).exists():
            # Outside the lock, so that others can load meanwhile.
            member.report("fetching")
            hub.fetch(path, partial(member.report, "fetching"))
        member.report("loading")
        with self._one_at_a_time:
            return self._read(member, evict)

    def _read(self, member: Member, evict: bool) -> Checkpoint:
        """Load a model whose files are here, alone."""
        return load.load_checkpoint(
            member.source,
            member.device or self.device,
            self.dtype,
            member.block_size,
            make_room=partial(self._make_room, member, evict),
        )

    def _make_room(self, member: Member, evict: bool, size: int, device: str) -> None:
        """Evict other models, if allowed, until `size` bytes are free."""
        others = sorted(self._members.values(), key=lambda other: other.used) if evict else []
        for other in others:
            if memory.available(device) >= size:
                break
            if other is not member and other.lock.acquire(blocking=False):  # else it is about to be used
                try:
                    unload(other)
                finally:
                    other.lock.release()
        if (free := memory.available(device)) < size:
            raise NoRoom(
                f"There is not enough memory for {member.name} on {device}: it needs {size / 1e9:.1f} GB, "
                f"and {free / 1e9:.1f} GB are free."
            )


def unload(member: Member) -> None:
    """Drop a model's checkpoint, unless a run still uses it and would keep its memory."""
    if member.checkpoint is None:
        return
    reference = weakref.ref(member.checkpoint)
    member.checkpoint = None
    gc.collect()
    torch.cuda.empty_cache()  # other libraries may need the GPU memory that torch would keep
    member.checkpoint = reference()
    if member.checkpoint is None:
        member.report("waiting")


def labels(sources: Sequence[str]) -> dict[str, str]:
    """Return sources by name, without the server's folders in the names; equal names are numbered."""
    names: dict[str, str] = {}
    for source in dict.fromkeys(sources):
        path = Path(source)
        is_folder = source not in bundled() and (path.is_absolute() or path.exists())
        name = path.resolve().name if is_folder else source
        same = sum(name == other.partition(" (")[0] for other in names)
        names[f"{name} ({same + 1})" if same else name] = source
    return names
