"""The saved states of a run, checkpoint folders of transformers' Trainer, and the lock of its folder."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout
from transformers.trainer_callback import TrainerState
from transformers.trainer_utils import sort_checkpoints

STATE = "trainer_state.json"  # the last file of a state, so one without it is unfinished
LOCK = "training.lock"


@contextlib.contextmanager
def locked(output: Path) -> Iterator[None]:
    """Keep other trainings out of an output folder within a `with` block, or until this process is killed.

    Raises:
        ValueError: if another training is in it.
    """
    try:
        lock = FileLock(output / LOCK, blocking=False).acquire()
    except Timeout as error:
        raise ValueError(
            f"Another training is writing to {output}. Choose another output folder, or wait for its end."
        ) from error
    with lock:
        yield


def last(output: Path) -> Path | None:
    """Return the newest complete state, if any."""
    for folder in map(Path, reversed(sort_checkpoints(str(output)))):
        with contextlib.suppress(OSError, json.JSONDecodeError):
            TrainerState.load_from_json(str(folder / STATE))
            return folder
    return None


def clear(output: Path, kept: Path | None = None) -> None:
    """Remove all states but `kept`, each atomically: without its last file it is unfinished."""
    for folder in map(Path, sort_checkpoints(str(output))):
        if folder != kept:
            (folder / STATE).unlink(missing_ok=True)
            shutil.rmtree(folder)
