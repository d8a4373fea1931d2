"""The saved states of a run: the checkpoint folders of transformers' Trainer."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

from transformers.trainer_callback import TrainerState
from transformers.trainer_utils import sort_checkpoints

STATE = "trainer_state.json"  # the last file of a state, so one without it is unfinished


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
