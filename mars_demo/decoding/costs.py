"""The cost of a forward on this machine, by its number of positions.

Costs are measured once and kept in the user's cache folder, one JSON file per model and machine.
"""

import hashlib
import json
import math
import os
import tempfile
import time
from bisect import bisect_right
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any, Self

import torch

from mars_demo import layout as layouts
from mars_demo.decoding.acceptance import Acceptance
from mars_demo.decoding.engine import Engine
from mars_demo.decoding.reading import read
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.device import gpu_name, processor

SIZES = (1, 2, 3, 5, 9, 17, 25)  # the measured numbers of positions
CONTEXT = 150  # cached positions before a measured forward
SECONDS = 2.0  # approximate time limit of a measurement
ROUNDS = (3, 7)  # the fewest and the most rounds over all sizes
LARGEST = 300_000_000  # the most parameters of a model that is measured automatically
VARIABLE = "MARS_DEMO_CACHE"  # the folder; if it is empty, nothing is kept or measured automatically
KERNELS = 2  # version of the computation; a change makes older files invalid
SHARE = 9  # the shortest measurement takes as long as this many forwards of the largest size


@dataclass(frozen=True)
class Costs:
    """The curve c(k): milliseconds of a forward with k new positions, including reading its predictions.

    It holds for batch size 1 and a context of `CONTEXT` tokens. A longer context makes every window more
    expensive, and only the ratios of costs decide between windows.

    points: (k, milliseconds), both ascending; at least two. c is linear between them, and its last segment
        continues beyond them.

    Raises:
        ValueError: if the points are too few or not ascending.
    """

    points: tuple[tuple[int, float], ...]

    def __post_init__(self):
        fits = len(self.points) > 1 and all(k > 0 and 0 < ms < math.inf for k, ms in self.points)
        if not fits or any(k >= more or ms > slower for (k, ms), (more, slower) in pairwise(self.points)):
            raise ValueError("Costs are at least two points (positions, milliseconds), both ascending.")

    @classmethod
    def of(cls, measured: Mapping[int, float]) -> Self:
        """Return the monotone curve nearest to the measured points (isotonic regression)."""
        blocks: list[list[float]] = []
        for k in sorted(measured):
            blocks.append([measured[k]])
            while len(blocks) > 1 and fmean(blocks[-2]) > fmean(blocks[-1]):
                last = blocks.pop()
                blocks[-1] += last
        level = [fmean(block) for block in blocks for _ in block]
        return cls(tuple(zip(sorted(measured), level)))

    def __call__(self, k: int) -> float:
        """Return the milliseconds of a forward with k new positions."""
        if k <= self.points[0][0]:
            return self.points[0][1]
        place = bisect_right(self.points, (k, math.inf))
        (low, cheap), (high, dear) = self.points[min(place, len(self.points) - 1) - 1 :][:2]
        return cheap + (dear - cheap) * (k - low) / (high - low)


def is_measurable(checkpoint: Checkpoint) -> bool:
    """Return whether the checkpoint is a small MARS model on a CPU; others gain little or take long."""
    return (
        checkpoint.objective == "mars"
        and checkpoint.device.type == "cpu"
        and sum(weight.numel() for weight in checkpoint.model.parameters()) <= LARGEST
    )


def measure(checkpoint: Checkpoint) -> Costs | None:
    """Return the costs on this machine; None if measuring would take much longer than `SECONDS`."""
    steps = measuring(checkpoint)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def measuring(checkpoint: Checkpoint) -> Generator[None, None, Costs | None]:
    """Measure one forward per step, so that other work can run between steps; return the costs.

    The costs are medians of several rounds over all sizes, fewer if forwards are slow.
    """
    engine, largest = Engine(checkpoint.decoder), SIZES[-1]
    spent = 0.0
    while engine.length + 2 * largest <= min(CONTEXT + largest, checkpoint.context):
        warm = engine.length > 0  # the first forward includes one-time work
        took = _forward(engine, largest, keep=largest)
        spent += took
        if warm and took * SHARE > SECONDS:
            return None
        yield
    times: dict[int, list[float]] = {k: [] for k in SIZES}
    fewest, most = ROUNDS
    for number in range(most):
        if number >= fewest and spent > SECONDS / 2:
            break
        for k in SIZES:
            times[k].append(_forward(engine, k))
            spent += times[k][-1]
            yield
    return Costs.of({k: 1000 * median(seconds) for k, seconds in times.items()})


def _forward(engine: Engine, k: int, keep: int = 0) -> float:
    """Return the seconds to compute, read and commit a forward with k new positions, as in a run."""
    started = time.perf_counter()
    layout = layouts.window([0], k - 1, 0, engine.length)
    read(engine.forward(layout), Acceptance())
    engine.commit(keep)
    return time.perf_counter() - started


# ------------------------------------------------------------------------------------------ keeping them


def folder() -> Path | None:
    """Return the folder of the costs files; None if nothing is kept."""
    if (named := os.environ.get(VARIABLE)) is not None:
        return Path(named) / "costs" if named else None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "mars-demo" / "costs"


def key(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return everything that a forward's cost depends on: model, shapes, precision and machine."""
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
    """Return the stored costs of this model on this machine; None if the file is missing or damaged."""
    cache, described = folder(), key(checkpoint)
    if cache is None:
        return None
    try:
        record = json.loads((cache / _name(described)).read_text("utf-8"))
        return Costs(tuple((k, ms) for k, ms in record["costs"])) if record["key"] == described else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def save(checkpoint: Checkpoint, costs: Costs) -> None:
    """Store costs for later processes, if the folder is writable."""
    cache, described = folder(), key(checkpoint)
    if cache is None:
        return
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=cache, suffix=".part", delete=False) as file:
            json.dump({"key": described, "costs": costs.points}, file)
        os.replace(file.name, cache / _name(described))


def _name(described: dict[str, Any]) -> str:
    return f"{hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:32]}.json"
