"""An app's models, each loaded once and shared by all visitors."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from mars_demo.core import background
from mars_demo.core.names import bundled
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.facts import Facts, facts
from mars_demo.models.load import load_checkpoint

RETRY_AFTER = 60  # seconds until a failed load may be retried, since an unreachable hub may be back


@dataclass(eq=False)
class Member:
    """A model of a pool, with its public name, its source and the progress of its loading."""

    name: str
    source: str
    phase: str = "waiting"  # then loading, and ready or failed
    problem: str | None = None  # the reason of a failure, in a sentence
    facts: Facts | None = None  # known after loading
    checkpoint: Checkpoint | None = None
    failed: float = 0.0
    block_size: int | None = None  # masks per block, if its files and its name may not state it
    lock: threading.RLock = field(default_factory=threading.RLock)


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

    def load(self, name: str | None = None) -> Checkpoint:
        """Return the checkpoint with a name, after loading it if necessary.

        Raises:
            ValueError: if there is no such model, or as `load_checkpoint`.
        """
        member = self.member(name)
        with member.lock:
            if member.checkpoint is None:
                self._bring(member)
            return member.checkpoint

    def begin(self, name: str) -> None:
        """Start loading a model in the background, unless it is loaded or being loaded."""
        if self.member(name).phase in ("waiting", "failed"):
            background.start(self._try, name)

    def load_all(self) -> None:
        """Load one model after the other; those that fail keep their reason."""
        for name in self.names():
            self._try(name)

    def _try(self, name: str) -> None:
        with suppress(ValueError):  # the member keeps the error
            self.load(name)

    def _bring(self, member: Member) -> None:
        """Load a model, or record the error."""
        if member.problem and time.monotonic() - member.failed < RETRY_AFTER:
            raise ValueError(member.problem)
        member.phase = "loading"
        try:
            checkpoint = replace(self._read(member), name=member.name)
        except Exception as error:
            # Broken files raise many types, and none may leave visitors waiting for this model.
            member.problem = (str(error) or type(error).__name__).replace(member.source, member.name)
            member.failed, member.phase = time.monotonic(), "failed"
            raise ValueError(member.problem) from error
        member.checkpoint, member.facts, member.problem = checkpoint, facts(checkpoint), None
        member.phase = "ready"

    def _read(self, member: Member) -> Checkpoint:
        return load_checkpoint(member.source, self.device, self.dtype, member.block_size)


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
