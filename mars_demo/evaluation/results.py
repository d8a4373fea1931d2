"""Results files in assets/results: reading the measurements of benchmarks."""

import json
from collections.abc import Mapping

import torch

from mars_demo.core.assets import ASSETS
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.device import gpu_name, processor
from mars_demo.models.runtime.quantized import kernel

FOLDER = ASSETS / "results"


def origin(measured: Mapping) -> str:
    """Return the command and the commit of measurements as Markdown."""
    commit = f"`{measured['commit']}`"
    if command := measured.get("command"):
        return f"`{command}` at {commit}"
    return f"rows of {commit}, which no command of today makes"


def machine(checkpoint: Checkpoint | None = None) -> str:
    """Return the model, its precision and kernel, and the GPU or the threads and the CPU."""
    model = [] if checkpoint is None else [checkpoint.name, checkpoint.precision]
    if checkpoint is not None and checkpoint.quantized:
        model[-1] += f" ({kernel()} bytes)"
    if checkpoint is not None and (gpu := gpu_name(checkpoint.device)):
        return ", ".join([*model, gpu])
    threads = torch.get_num_threads()
    return ", ".join([*model, f"{threads} CPU thread{'s' * (threads > 1)}", processor()])


def read_results(name: str):
    """Return the content of a results file; None if it does not exist yet."""
    path = FOLDER / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
