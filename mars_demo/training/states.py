"""The saved states of a run: the checkpoint folders of transformers' Trainer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from transformers.trainer_callback import TrainerState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

STATE = "trainer_state.json"  # the last file of a state, so one without it is unfinished


def last(output: Path) -> Path | None:
    """Return the newest complete state, if any."""
    return next(filter(_is_complete, reversed(_all(output))), None)


def _is_complete(folder: Path) -> bool:
    """Return whether a state was written to its end."""
    try:
        TrainerState.load_from_json(str(folder / STATE))
    except (OSError, json.JSONDecodeError):
        return False
    return True


def clear(output: Path, kept: Path | None = None) -> None:
    """Remove all states but `kept`, each atomically: without its last file it is unfinished."""
    for folder in _all(output):
        if folder != kept:
            (folder / STATE).unlink(missing_ok=True)
            shutil.rmtree(folder)


def _all(output: Path) -> list[Path]:
    """Return the folders of states, complete or not, in the order of their steps."""
    steps = {folder: folder.name.rpartition("-")[2] for folder in output.glob(f"{PREFIX_CHECKPOINT_DIR}-*")}
    return sorted((one for one in steps if steps[one].isdecimal()), key=lambda one: int(steps[one]))
