"""Throughput of batches: AR, the paper's block cache, the per-sequence cache and lossless.

    OMP_NUM_THREADS=1 python -m benchmarks.batches [--sizes 1,2,4,8,16] [--prompts 48] [--rounds 3]
        [--output FILE]

All methods answer the same held-out prompts and take turns in each round.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from benchmarks import tables
from benchmarks.timing import take_turns
from mars_demo import tasks
from mars_demo.evaluation import results, throughput
from mars_demo.evaluation.throughput import Progress, Result
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.names import TINY

FILE = "batches.json"


def answered(steps: Iterable[Result | Progress]) -> Result:
    *_, result = steps
    return result


def methods(checkpoint: Checkpoint, size: int) -> dict[str, Callable[[Sequence[str]], Result]]:
    def ours(name: str, method: throughput.Method) -> Callable[[Sequence[str]], Result]:
        return lambda prompts: answered(throughput.decoding(checkpoint, prompts, name, size, method))

    return {
        throughput.GENERATE: lambda prompts: answered(throughput.generating(checkpoint, prompts, size)),
        **{name: ours(name, method) for name, method in throughput.methods(checkpoint, size).items()},
    }


def measure(model: str, sizes: str, prompts: int, rounds: int, output: Path) -> None:
    checkpoint = load_checkpoint(model)
    held_out = [example.prompt for example in tasks.mixed(max(1, prompts // len(tasks.TASKS)))]
    rows = []
    for size in map(int, sizes.split(",")):
        for name, timed in take_turns(methods(checkpoint, size), [held_out], rounds).items():
            [result] = timed.outputs
            rows.append(asdict(result) | {"method": name, "seconds": timed.seconds})
    results.write(output, results.machine(checkpoint), {"prompts": len(held_out), "rows": rows})


def by_size(file: str | Path = FILE) -> dict[int, dict[str, dict]]:
    """Return the methods by batch size, with only the fastest block cache of each."""
    sizes: dict[int, dict[str, dict]] = {}
    for one in results.read(file)["rows"]:
        sizes.setdefault(one["size"], {})[one["method"]] = one
    for chosen in sizes.values():
        blocks = [name for name in chosen if "block cache" in name]
        best = min(blocks, key=lambda name: median(chosen[name]["seconds"]))
        for name in blocks:
            if name != best:
                del chosen[name]
    return sizes


def table(file: str | Path = FILE) -> str:
    measured, rows = results.read(file), {}
    for size, chosen in by_size(file).items():
        for name, one in chosen.items():
            kind = re.sub(r"(block cache|lossless,) \d+( drafts,)?", r"\1", name)  # the number varies
            faster = tables.faster(one["seconds"], chosen[throughput.BASELINE]["seconds"])
            speed = f"{one['tokens'] / median(one['seconds']):.0f}"
            rows.setdefault(kind, {"method": kind})[f"batch {size}"] = f"{speed}, {faster}"
    return tables.shown(list(rows.values())) + tables.source(
        measured, tables.prompts(measured), tables.rounds(measured)
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=TINY)
    parser.add_argument("--sizes", default="1,2,4,8,16")
    parser.add_argument("--prompts", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
