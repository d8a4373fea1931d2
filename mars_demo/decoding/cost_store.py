"""Costs that were measured earlier, one JSON file for each model and machine in the user's cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from mars_demo.decoding.costs import Costs
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.device import gpu_name, processor

VARIABLE = "MARS_DEMO_CACHE"  # the folder; if it is empty, nothing is kept and nothing measured unasked
KERNELS = 1  # counted up when forwards are computed differently, so that older files are not used


def folder() -> Path | None:
    """Where costs are kept; None for nowhere."""
    if (named := os.environ.get(VARIABLE)) is not None:
        return Path(named) / "costs" if named else None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "mars-demo" / "costs"


def key(checkpoint: Checkpoint) -> dict[str, Any]:
    """All that a forward's cost depends on: the model and its shape, the precision and the machine."""
    model = checkpoint.model
    config = model.config.to_json_string(use_diff=False)
    shapes = [f"{name} {tuple(weight.shape)}" for name, weight in model.named_parameters()]
    return {
        "model": checkpoint.name,
        "weights": hashlib.sha256("\n".join([config, *shapes]).encode()).hexdigest(),
        "dtype": checkpoint.precision,
        "device": gpu_name(checkpoint.device) or checkpoint.device.type,
        "threads": torch.get_num_threads(),
        "processor": processor(),
        "torch": torch.__version__,
        "kernels": KERNELS,
    }


def load(checkpoint: Checkpoint) -> Costs | None:
    """What was kept for this model on this machine. None without it, also if its file is damaged."""
    found, wanted = folder(), key(checkpoint)
    if found is None:
        return None
    try:
        record = json.loads((found / _name(wanted)).read_text("utf-8"))
        return Costs(tuple((k, ms) for k, ms in record["costs"])) if record["key"] == wanted else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def save(checkpoint: Checkpoint, costs: Costs) -> None:
    """Keep them for later processes, if there is a folder that can be written. Readers see the old file or
    the new one, never a part."""
    found, described = folder(), key(checkpoint)
    if found is None:
        return
    with suppress(OSError):
        found.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=found, suffix=".part", delete=False) as file:
            json.dump({"key": described, "costs": costs.points}, file)
        os.replace(file.name, found / _name(described))


def _name(described: dict[str, Any]) -> str:
    return f"{hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:32]}.json"
