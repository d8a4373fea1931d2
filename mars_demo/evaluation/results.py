"""Results files in assets/results: writing and reading the measurements of benchmarks."""

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import torch

from mars_demo.core.assets import ASSETS
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.device import gpu_name, processor

FOLDER = ASSETS / "results"


def save_results(path: Path, machine: str, content: Mapping) -> None:
    """Write a results file: the running command, the machine, and the measurements."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"command": command(), "machine": machine} | content
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def command() -> str:
    """Return the command line of this process, as a user would type it."""
    module = getattr(sys.modules["__main__"].__spec__, "name", Path(sys.argv[0]).stem)
    return shlex.join(["python", "-m", module.removesuffix(".__main__"), *sys.argv[1:]])


def origin(measured: Mapping) -> str:
    """Return the command of a results file as Markdown."""
    return f"`{measured['command']}`"


def machine(checkpoint: Checkpoint | None = None) -> str:
    """Return the model, its precision, and the GPU or the threads and the CPU."""
    model = [] if checkpoint is None else [checkpoint.name, checkpoint.precision]
    if checkpoint is not None and (gpu := gpu_name(checkpoint.device)):
        return ", ".join([*model, gpu])
    threads = torch.get_num_threads()
    return ", ".join([*model, f"{threads} CPU thread{'s' * (threads > 1)}", processor()])


def read_results(name: str):
    """Return the content of a results file; None if it does not exist yet."""
    path = FOLDER / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
