"""Batches on this machine: AR, the paper's block cache, the cursor cache and lossless, side by side.

    OMP_NUM_THREADS=1 python -m benchmarks.batches [--sizes 1,2,4,8,16] [--prompts 48] [--rounds 3]
        [--output FILE]

All methods answer the same held-out prompts and take turns, round by round. Lossless decoding is also
measured with several numbers of drafts, from which `decode_batch.LOSSLESS_DRAFTS` was chosen.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks import tables
from benchmarks.timing import Timed, take_turns
from mars_demo import tasks
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results, throughput
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint

FILE = "batches.json"
DRAFTS = (1, 2, 3, 4, 6, 8)


def row(name: str, timed: Timed) -> dict:
    """A method's counts, with the seconds of all rounds."""
    [result] = timed.found
    return asdict(result) | {"method": name, "seconds": timed.seconds}


def methods(checkpoint: Checkpoint, size: int) -> dict:
    """What answers a list of prompts in batches of `size`, by name."""
    ours = {
        name: partial(throughput.ours, checkpoint, name=name, size=size, method=method)
        for name, method in throughput.methods(checkpoint, size).items()
    }
    return {throughput.GENERATE: partial(throughput.generate, checkpoint, size=size)} | ours


def with_drafts(checkpoint: Checkpoint, size: int) -> dict:
    """Lossless decoding with each number of drafts."""
    limit = throughput.MAX_NEW_TOKENS
    chosen = {
        f"lossless, {count} drafts": Request("lossless", window=count + 1, max_new_tokens=limit)
        for count in DRAFTS
    }
    return {
        name: partial(throughput.ours, checkpoint, name=name, size=size, method=throughput.Method(request))
        for name, request in chosen.items()
    }


def measure(model: str, sizes: str, prompts: int, rounds: int, output: Path) -> None:
    checkpoint = load_checkpoint(model)
    asked = [example.prompt for example in tasks.mixed(max(1, prompts // len(tasks.TASKS)))]
    found, swept = [], []
    for size in map(int, sizes.split(",")):
        timed = take_turns(methods(checkpoint, size), [asked], rounds)
        found += [row(name, one) for name, one in timed.items()]
        timed = take_turns(with_drafts(checkpoint, size), [asked], rounds)
        swept += [row(name, one) for name, one in timed.items()]
    record = {"prompts": len(asked), "rows": found, "drafts": swept}
    results.write(output, results.machine(checkpoint), record)


def by_size(file: str | Path = FILE) -> dict[int, dict[str, dict]]:
    """Return the methods by batch size; of the block caches of one size only the fastest."""
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
    measured = results.read(file)
    rows = [
        {
            "batch": size,
            "method": name,
            "tokens per second": f"{one['tokens'] / median(one['seconds']):.0f}",
            "faster than AR": tables.faster(one["seconds"], chosen[throughput.BASELINE]["seconds"]),
            "forwards": one["forwards"],
            "positions": one["positions"],
            "waiting": f"{one['waiting']:.0%}",
        }
        for size, chosen in by_size(file).items()
        for name, one in chosen.items()
    ]
    return tables.shown(rows) + tables.source(measured, tables.prompts(measured), tables.rounds(measured))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-tiny")
    parser.add_argument("--sizes", default="1,2,4,8,16")
    parser.add_argument("--prompts", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=results.FOLDER / FILE)
    arguments = parser.parse_args()
    measure(**vars(arguments))
    print(table(arguments.output.resolve()))


if __name__ == "__main__":
    main()
