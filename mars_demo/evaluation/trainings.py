"""Trainings short enough to watch: their presets, their settings, and recordings of them.

`assets/trainings/index.json` lists the recordings; each has a JSONL file next to it.
`python -m mars_demo record trainings` records them again.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from typing import Any

import torch

from mars_demo.core.assets import ASSETS, read_json
from mars_demo.core.limits import LIMITS
from mars_demo.evaluation.training_record import watch
from mars_demo.models.load import load_checkpoint
from mars_demo.training.config import MarsConfig

FOLDER = ASSETS / "trainings"
PRESETS = read_json("presets.json")
DATA = {
    "word problems": "tasks:word-problems",
    "all tasks": "tasks",
    "tables and lists": "tasks:tables,sorting,reversing",
    "notes and stories": "tasks:notes,stories",
    "code": "tasks:functions",
}
RECIPE = ("objective", "block_size", "sft_weight", "data", "steps", "learning_rate")  # of a preset
BATCH_TOKENS = 1024
MUON = 2  # Muon's learning rate relative to AdamW's


def training_index() -> list[dict[str, Any]]:
    """Return the recorded trainings in display order: `id`, `title`, and their settings."""
    return json.loads((FOLDER / "index.json").read_text("utf-8"))


def training_recording(id: str) -> str:
    """Return a recorded training as JSON lines, as `watch` made them.

    Raises:
        ValueError: if there is no recording with that id.
    """
    if id not in [entry["id"] for entry in training_index()]:
        raise ValueError(f"Unknown recorded training {id!r}.")
    return (FOLDER / f"{id}.jsonl").read_text("utf-8")


def record_training(entry: dict[str, Any]) -> Iterator[str]:
    """Run an entry of the index, a preset on a base with a seed, and yield its record."""
    base = load_checkpoint(entry["base"], dtype=torch.float32)
    with tempfile.TemporaryDirectory() as output:
        config = MarsConfig(output, **preset_settings(entry["preset"], entry["seed"]))
        yield from watch(base, config, entry["prompt"], entry["id"])


def preset_settings(id: str, seed: int) -> dict[str, Any]:
    """Return the settings of a preset."""
    preset = next(preset for preset in PRESETS if preset["id"] == id)
    return training_settings(*(preset[name] for name in RECIPE), seed=seed)


def training_settings(
    objective: str,
    block_size: float,
    sft_weight: float,
    data: str,
    steps: float,
    learning_rate: float,
    seed: int,
) -> dict[str, Any]:
    """Return the settings of a training on one of `DATA`, without saved states.

    They are no `MarsConfig` yet, which looks for devices: on ZeroGPU only the lent process may do so.

    Raises:
        ValueError: if a setting is out of range, or training is switched off.
    """
    if not LIMITS.train_steps:
        raise ValueError("Training is switched off here; run the app on your own machine to train.")
    if not 1 <= steps <= LIMITS.train_steps:
        raise ValueError(f"The number of steps must be from 1 to {LIMITS.train_steps}, not {steps:g}.")
    if not 0 < learning_rate <= 0.1:
        raise ValueError(f"The learning rate must be above 0 and at most 0.1, not {learning_rate:g}.")
    if data not in DATA:
        raise ValueError(f"Unknown data set {data!r}. Choose from {', '.join(DATA)}.")
    return {
        "objective": objective,
        "block_size": int(block_size),
        "sft_weight": sft_weight,
        "data": DATA[data],
        "max_steps": int(steps),
        "batch_tokens": BATCH_TOKENS,
        "learning_rate": learning_rate,
        "muon_learning_rate": MUON * learning_rate,
        "warmup_steps": 0.1,
        "seed": seed,
        "save_strategy": "no",
    }
