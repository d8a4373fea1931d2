"""What a forward costs on this machine, by the number of positions that it computes.

Costs are measured once and kept in the user's cache folder, one JSON file for each model and machine.
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

from mars_demo.decoding import layout as layouts
from mars_demo.decoding.acceptance import Acceptance
from mars_demo.decoding.engine import Engine
from mars_demo.decoding.reading import read
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.device import gpu_name, processor

SIZES = (1, 2, 3, 5, 9, 17, 25)  # positions that are measured
CONTEXT = 150  # cached positions that a measured forward comes after
SECONDS = 2.0  # that a measurement may take, about
ROUNDS = (3, 7)  # of all sizes: at least and at most
LARGEST = 300_000_000  # parameters of a model that is measured without being asked for
VARIABLE = "MARS_DEMO_CACHE"  # the folder; if it is empty, nothing is kept and nothing measured unasked
KERNELS = 1  # counted up when forwards are computed differently, so that older files are not used
SHARE = 9  # forwards of the largest size that take as long as the shortest measurement


@dataclass(frozen=True)
class Costs:
    """c(k): the milliseconds of a forward with k new positions and of reading all their predictions.

    For one prompt at a time, after one length of context, `CONTEXT`. A longer context costs more with every
    window, and only the ratios of costs decide on one.

    points: (k, milliseconds), both ascending. Between them c is linear; after them it goes on as between
        the last two.

    Raises:
        ValueError: if they are no such points, at least two.
    """

    points: tuple[tuple[int, float], ...]

    def __post_init__(self):
        fits = len(self.points) > 1 and all(k > 0 and 0 < ms < math.inf for k, ms in self.points)
        if not fits or any(k >= more or ms > slower for (k, ms), (more, slower) in pairwise(self.points)):
            raise ValueError("Costs are at least two points (positions, milliseconds), both ascending.")

    @classmethod
    def of(cls, measured: Mapping[int, float]) -> Self:
        """Return the monotone curve nearest to what was measured (isotonic regression)."""
        blocks: list[list[float]] = []
        for k in sorted(measured):
            blocks.append([measured[k]])
            while len(blocks) > 1 and fmean(blocks[-2]) > fmean(blocks[-1]):
                last = blocks.pop()
                blocks[-1] += last
        level = [fmean(block) for block in blocks for _ in block]
        return cls(tuple(zip(sorted(measured), level)))

    def __call__(self, k: int) -> float:
        """Return milliseconds of a forward with k new positions."""
        if k <= self.points[0][0]:
            return self.points[0][1]
        place = bisect_right(self.points, (k, math.inf))
        (low, cheap), (high, dear) = self.points[min(place, len(self.points) - 1) - 1 :][:2]
        return cheap + (dear - cheap) * (k - low) / (high - low)


def is_measurable(checkpoint: Checkpoint) -> bool:
    """Return whether it is a small MARS model on a CPU: others hardly gain or take long."""
    return (
        checkpoint.objective == "mars"
        and checkpoint.device.type == "cpu"
        and sum(weight.numel() for weight in checkpoint.model.parameters()) <= LARGEST
    )


def measure(checkpoint: Checkpoint) -> Costs | None:
    """Return its costs on this machine; None if measuring would take longer than about `SECONDS`."""
    steps = measuring(checkpoint)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def measuring(checkpoint: Checkpoint) -> Generator[None, None, Costs | None]:
    """Yield the measurement in steps of one forward each, so that it can give way to others between them.

    Medians of several rounds over all sizes, fewer where forwards are slow.
    """
    engine, largest = Engine(checkpoint.decoder), SIZES[-1]
    spent = 0.0
    while engine.length + 2 * largest <= min(CONTEXT + largest, checkpoint.context):
        warm = engine.length > 0  # the first forward pays for what happens once
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
    """Return seconds of a forward with k new positions as a run makes it: computed, read and committed."""
    started = time.perf_counter()
    layout = layouts.window([0], k - 1, 0, engine.length)
    read(engine.forward(layout), Acceptance())
    engine.commit(keep)
    return time.perf_counter() - started


# ------------------------------------------------------------------------------------------ keeping them


def folder() -> Path | None:
    """Return where costs are kept; None for nowhere."""
    if (named := os.environ.get(VARIABLE)) is not None:
        return Path(named) / "costs" if named else None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "mars-demo" / "costs"


def key(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return all that a forward's cost depends on: model, shapes, precision and machine."""
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
    """Return what was kept for this model on this machine. None without it, also if its file is damaged."""
    cache, described = folder(), key(checkpoint)
    if cache is None:
        return None
    try:
        record = json.loads((cache / _name(described)).read_text("utf-8"))
        return Costs(tuple((k, ms) for k, ms in record["costs"])) if record["key"] == described else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def save(checkpoint: Checkpoint, costs: Costs) -> None:
    """Keep them for later processes, if there is a folder that can be written."""
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
