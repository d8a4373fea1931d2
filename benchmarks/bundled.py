"""What the bundled tiny models can do on held-out prompts.

    python -m benchmarks.bundled [--limit 40] [--output assets/results/tiny.json]

Accuracy and tokens per forward for each task: `ar-tiny` and `mars-tiny` at several τ, and lossless decoding
with the number of answers that equal those of `ar`. τ = 1 is `ar`, token for token, as the tests check.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import cache
from pathlib import Path

import torch

from mars_demo import tasks
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.accuracy import Row, answers, average, row
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint

METHODS = {
    "ar-tiny": ("ar-tiny", Request("ar")),
    "τ = 1": ("mars-tiny", Request("ar")),
    **{f"τ = {tau:g}": ("mars-tiny", Request("mars", tau)) for tau in (0.95, 0.9, 0.8, 0.7, 0.6, 0.5)},
    "lossless": ("mars-tiny", Request("lossless")),
}
COLUMNS = ["ar-tiny", "τ = 1", "τ = 0.95", "τ = 0.5", "lossless"]


@cache
def loaded(name: str) -> Checkpoint:
    torch.set_num_threads(1)  # a process per core instead
    return load_checkpoint(name, device="cpu")


def measure(task: str, limit: int) -> tuple[dict[str, Row], int]:
    """A row per method, and how many lossless answers are those of `ar`."""
    examples = tasks.held_out(task, limit)
    graded = {
        method: list(answers(loaded(name), examples, request))
        for method, (name, request) in METHODS.items()
    }
    rows = {m: row(task, METHODS[m][1].acceptance.threshold(), found) for m, found in graded.items()}
    pairs = zip(graded["τ = 1"], graded["lossless"])
    return rows, sum(ar.token_ids == lossless.token_ids for (_, ar), (_, lossless) in pairs)


def measured(limit: int) -> Iterator[tuple[str, dict[str, Row], int]]:
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        jobs = {task: processes.submit(measure, task, limit) for task in tasks.TASKS}
        for task, job in jobs.items():
            yield task, *job.result()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    rows: dict[str, list[Row]] = defaultdict(list)
    equal = 0

    def line(task: str, found: dict[str, Row]) -> str:
        cells = (f"{found[c].accuracy:.1%}, {found[c].tokens_per_forward:.2f}" for c in COLUMNS)
        return f"| {task} | {' | '.join(cells)} |"

    print(f"| task | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}")
    for task, found, same in measured(arguments.limit):
        print(line(task, found), flush=True)
        equal += same
        for method, r in found.items():
            rows[method].append(r)
    averages = {method: average(found) for method, found in rows.items()}
    print(line("average", averages))
    print("\n| τ | accuracy | tokens per forward |\n|---|---|---|")
    for method, r in averages.items():
        if method.startswith("τ"):
            print(f"| {method.removeprefix('τ = ')} | {r.accuracy:.1%} | {r.tokens_per_forward:.2f} |")
    total = arguments.limit * len(tasks.TASKS)
    print(f"\nlossless: {equal} of {total} answers equal to those of ar, token for token.")
    if arguments.output:
        record = {
            "prompts_per_task": arguments.limit,
            "lossless_equal": equal,
            "methods": {name: [asdict(r) for r in rs] for name, rs in rows.items()},
        }
        results.write(arguments.output, results.machine(load_checkpoint("mars-tiny")), record)


if __name__ == "__main__":
    main()
