"""The models that an app serves: each loaded once, shared by everybody, and let go when memory is short.

Nothing here imports torch before the first model is loaded, so that a page can be up before that.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mars_demo.models.names import bundled, locate

if TYPE_CHECKING:
    from mars_demo.models.checkpoint import Checkpoint
    from mars_demo.models.facts import Facts

RETRY_AFTER = 60  # seconds after a failure; a hub that could not be reached may be back

_importing = threading.Lock()


def library():
    """Return `load`, `memory` and `facts`. One thread at a time imports them, as transformers requires."""
    with _importing:
        from mars_demo.models import facts, load, memory

        return load, memory, facts


class NoRoom(ValueError):
    """Memory does not suffice for a model."""


@dataclass(eq=False)
class Member:
    """A model of a pool: the name that people choose, and the source that it is loaded from."""

    name: str
    source: str
    phase: str = "waiting"  # then fetching, loading, and ready or failed
    done: int = 0  # bytes of that phase, 0 where they are not known
    total: int = 0
    problem: str | None = None  # why it failed, in a sentence
    facts: Facts | None = None  # known from its first load on
    checkpoint: Checkpoint | None = None
    used: float = 0.0
    failed: float = 0.0
    lock: threading.RLock = field(default_factory=threading.RLock)

    def tell(self, phase: str, done: int = 0, total: int = 0) -> None:
        self.phase, self.done, self.total = phase, done, total


class Pool:
    """Models by name, each loaded when it is first asked for.

    sources: bundled names, folders, GGUF files and hub ids; the first one is the default.
    device, dtype: for all of them, as `load_checkpoint` takes them.
    block_size: masks per block of those that are not bundled; None for what they say themselves.
    """

    def __init__(
        self,
        sources: Sequence[str],
        device: str | None = None,
        dtype: str = "auto",
        block_size: int | None = None,
    ):
        self.device, self.dtype, self.block_size = device, dtype, block_size
        self._members = {name: Member(name, source) for name, source in labels(sources).items()}
        # Two models must not count on the same free memory.
        self._one_at_a_time = threading.Lock()

    def names(self) -> list[str]:
        return list(self._members)

    def member(self, name: str | None) -> Member:
        """Return the model of that name, the default one for None.

        Raises:
            ValueError: if there is none.
        """
        name = next(iter(self._members), None) if name is None else name
        if name not in self._members:
            raise ValueError(f"Unknown model {name!r}. Choose from {', '.join(self._members) or 'none'}.")
        return self._members[name]

    def load(self, name: str | None = None, evict: bool = True) -> Checkpoint:
        """Return the checkpoint of that name. Waits until it is there.

        evict: whether others may be let go for it, the one unused longest first, where memory is short.

        Raises:
            ValueError: if there is no such model, it cannot be had, or memory does not suffice.
        """
        member = self.member(name)
        with member.lock:
            member.used = time.monotonic()
            if member.checkpoint is None:
                self._bring(member, evict)
            return member.checkpoint

    def begin(self, name: str) -> None:
        """Begin to load a model unless that was done."""
        if self.member(name).phase in ("waiting", "failed"):
            threading.Thread(target=self._try, args=[name], daemon=True).start()

    def load_all(self) -> None:
        """Load one after the other as far as memory goes; the others wait until they are asked for."""
        for name in self.names():
            self._try(name, evict=False)

    def _try(self, name: str, evict: bool = True) -> None:
        with suppress(ValueError):  # the member says what is wrong
            self.load(name, evict)

    def _bring(self, member: Member, evict: bool) -> None:
        """Fetch and load a model, or note why it cannot be had."""
        if member.problem and time.monotonic() - member.failed < RETRY_AFTER:
            raise ValueError(member.problem)
        member.tell("loading")
        try:
            found = replace(self._loaded(member, evict), name=member.name)
        except NoRoom:
            member.tell("waiting")
            raise
        except Exception as error:
            # Files from elsewhere break in many ways; none may leave people waiting for this model.
            member.problem = (str(error) or type(error).__name__).replace(member.source, member.name)
            member.failed = time.monotonic()
            member.tell("failed")
            raise ValueError(member.problem) from error
        _, _, facts = library()
        member.checkpoint, member.facts, member.problem = found, facts.facts(found), None
        member.tell("ready")

    def _loaded(self, member: Member, evict: bool) -> Checkpoint:
        load, memory, _ = library()
        path = locate(member.source)
        if not Path(path).exists():
            path = load.hub.fetch(path, member.tell)  # in its own time: others can be loaded meanwhile
        with self._one_at_a_time:
            device = load.usable(self.device)
            # A packed model takes less; its dense form may be asked for later.
            dtype = load.precision.dense_dtype(self.dtype, path, device)
            try:
                size = memory.needed(path, device, dtype)
            except Exception:  # its files are broken, which loading says in a sentence
                size = 0
            self._make_room(member, size, device, evict)
            block_size = None if member.source in bundled() else self.block_size
            return load.load_checkpoint(member.source, device, self.dtype, block_size, member.tell)

    def _make_room(self, wanted: Member, size: int, device: str, evict: bool) -> None:
        """Evict models until `size` bytes are free, if that is allowed."""
        _, memory, _ = library()
        others = sorted(self._members.values(), key=lambda member: member.used) if evict else []
        for other in others:
            if memory.available(device) >= size:
                break
            if other is not wanted:
                let_go(other)
        if (free := memory.available(device)) < size:
            raise NoRoom(
                f"There is no memory for {wanted.name} on {device}: it needs {size / 1e9:.1f} GB, and "
                f"{free / 1e9:.1f} GB are free."
            )


def let_go(member: Member) -> None:
    """Forget a checkpoint, unless a run holds it and would keep its memory."""
    if member.checkpoint is None:
        return
    held = weakref.ref(member.checkpoint)
    member.checkpoint = None
    gc.collect()
    _, memory, _ = library()
    memory.release()
    member.checkpoint = held()
    if member.checkpoint is None:
        member.tell("waiting")


def labels(sources: Sequence[str]) -> dict[str, str]:
    """Return names without the server's folders, and their sources; equal ones are numbered."""
    found: dict[str, str] = {}
    for source in dict.fromkeys(sources):
        path = Path(source)
        name = source if source in bundled() or not path.exists() else path.resolve().name
        same = sum(name == other.partition(" (")[0] for other in found)
        found[f"{name} ({same + 1})" if same else name] = source
    return found
