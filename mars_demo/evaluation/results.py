"""What this project has measured: the files that benchmarks write to assets/results, and their averages."""

import json
import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from mars_demo.assets import ASSETS
from mars_demo.evaluation.accuracy import Row, average
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.device import gpu_name, processor

FOLDER = ASSETS / "results"


def write(path: Path, machine: str, content: Mapping) -> None:
    """A file of results: the command that is running, the machine, and what was measured."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"command": command(), "machine": machine} | content
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def command() -> str:
    """The command line of this process, as someone else would type it."""
    module = getattr(sys.modules["__main__"].__spec__, "name", Path(sys.argv[0]).stem)
    return shlex.join(["python", "-m", module.removesuffix(".__main__"), *sys.argv[1:]])


def machine(checkpoint: Checkpoint | None = None) -> str:
    """What was measured on: the model, its precision and device, the threads and the processor."""
    named = [] if checkpoint is None else [checkpoint.name, checkpoint.precision]
    if checkpoint is not None and (gpu := gpu_name(checkpoint.device)):
        return ", ".join([*named, gpu])
    threads = torch.get_num_threads()
    return ", ".join([*named, f"{threads} CPU thread{'s' * (threads > 1)}", processor()])


def read(name: str):
    """The content of a file of results; None if it has not been measured yet."""
    path = FOLDER / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def grouped(rows: Sequence[dict]) -> dict[tuple[str, str], list[dict]]:
    """The rows of `paper.json` by method and decoding."""
    groups: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        groups.setdefault((row["method"], row["decoding"]), []).append(row)
    return groups


def averages(rows: Sequence[dict], key: str) -> dict[str | int, Row]:
    """The average of the rows that share a `key`: of a seed's over tasks, or of a task's over seeds."""
    found: dict[str | int, list[Row]] = {}
    for row in rows:
        fields = {field: row[field] for field in Row.__dataclass_fields__}
        found.setdefault(row[key], []).append(Row(**fields))
    return {value: average(group) for value, group in found.items()}


def spread(values: Sequence[float], digits: int) -> str:
    """Mean ± standard deviation; a single value as it is."""
    mean = f"{statistics.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


def ratios(times: Sequence[float], base: Sequence[float]) -> list[float]:
    """How many times as fast as the base, round by round: methods that took turns share a round's noise."""
    return [slow / fast for slow, fast in zip(base, times, strict=True)]


def ranged(values: Sequence[float], digits: int = 2, unit: str = "") -> str:
    """The median, and the smallest and largest value if there are several."""
    middle = f"{statistics.median(values):.{digits}f}{unit}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.{digits}f}–{max(values):.{digits}f})"
