"""Throughput of batches: AR, the paper's block cache, the per-sequence cache and lossless.

    OMP_NUM_THREADS=1 python -m benchmarks.batches [--sizes 1 2 4 8 16] [--prompts 48] [--rounds 3]
        [--output FILE]

All methods answer the same held-out prompts and take turns in each round.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from benchmarks import report
from benchmarks.timing import take_turns
from mars_demo import tasks
from mars_demo.evaluation import results, throughput
from mars_demo.evaluation.throughput import Result
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint

FILE = "batches.json"
SHOWN = (
    throughput.GENERATE,
    "MARS τ = 0.95, block cache",
    "MARS τ = 0.95, per-sequence cache",
    "lossless, per-sequence cache",
)


def methods(checkpoint: Checkpoint, size: int) -> dict[str, Callable[[Sequence[str]], Result]]:
    def ours(name: str, method: throughput.Method) -> Callable[[Sequence[str]], Result]:
        return lambda prompts: [*throughput.decoding(checkpoint, prompts, name, size, method)][-1]

    return {
        throughput.GENERATE: lambda prompts: [*throughput.generating(checkpoint, prompts, size)][-1],
        **{name: ours(name, method) for name, method in throughput.methods(checkpoint, size).items()},
    }


def measure(model: str, sizes: list[int], prompts: int, rounds: int, output: Path) -> None:
    checkpoint = load_checkpoint(model)
    held_out = [example.prompt for example in tasks.mixed(max(1, prompts // len(tasks.TASKS)))]
    rows = []
    for size in sizes:
        for name, timed in take_turns(methods(checkpoint, size), [held_out], rounds).items():
            [result] = timed.outputs
            rows.append(asdict(result) | {"method": name, "seconds": timed.seconds})
    results.write(output, results.machine(checkpoint), {"prompts": len(held_out), "rows": rows})


def table(file: str | Path = FILE) -> str:
    """Return the speed-ups of the main methods; the page has all of them, in tokens per second."""
    measured, rows = results.read(file), {}
    base = {row["size"]: row for row in measured["rows"] if row["method"] == throughput.BASELINE}
    # The fastest first: of several sizes of block caches, the table has that one.
    for one in sorted(measured["rows"], key=lambda row: (row["size"], median(row["seconds"]))):
        kind = re.sub(r"(block cache|lossless,) \d+( drafts,)?", r"\1", one["method"])
        if kind in SHOWN:
            faster = report.faster(one["seconds"], base[one["size"]]["seconds"])
            rows.setdefault(kind, {"method": kind}).setdefault(f"batch {one['size']}", faster)
    return report.shown([rows[kind] for kind in SHOWN]) + report.source(
        measured, report.prompts(measured), report.rounds(measured)
    )


if __name__ == "__main__":
    report.run(measure, table, FILE, model="mars-tiny", sizes=[1, 2, 4, 8, 16], prompts=48, rounds=3)
