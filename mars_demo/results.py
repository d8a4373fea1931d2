"""What this project has measured: the files that benchmarks write to assets/results, and their averages."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from mars_demo.checkpoints import ASSETS
from mars_demo.evaluation import Row, average

FOLDER = ASSETS / "results"


def read(name: str, folder: Path = FOLDER):
    """The content of a file of results; None where it has not been measured yet."""
    path = folder / name
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
    """Mean ± standard deviation; of a single value itself."""
    mean = f"{statistics.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.{digits}f}"
