"""Batches on this machine: AR, the paper's block cache, the cursor cache and lossless, side by side.

    OMP_NUM_THREADS=1 python -m benchmarks.batches [--sizes 1,2,4,8,16] [--prompts 48] [--rounds 3]
        [--output FILE]

All methods answer the same held-out prompts and take turns, round by round. The second table compares
numbers of drafts in lossless decoding; `decode_batch.LOSSLESS_DRAFTS` comes from it.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.turns import Timed, take_turns
from mars_demo import tasks
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results, throughput
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint

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


def table(rows: Sequence[dict], base: dict) -> None:
    """The methods at one batch size, against AR of this project in the same batch."""
    for r in rows:
        speed = r["tokens"] / statistics.median(r["seconds"])
        faster = results.ranged(results.ratios(r["seconds"], base["seconds"]), unit="×")
        counts = f"{r['forwards']} | {r['positions']} | {r['waiting']:.0%}"
        print(f"| {r['size']} | {r['method']} | {speed:.0f} | {faster} | {counts} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-tiny")
    parser.add_argument("--sizes", default="1,2,4,8,16")
    parser.add_argument("--prompts", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    checkpoint = load_checkpoint(arguments.model)
    per_task = max(1, arguments.prompts // len(tasks.TASKS))
    prompts = [example.prompt for example in tasks.mixed(per_task)]
    machine = results.machine(checkpoint)
    print(f"{machine}, {len(prompts)} prompts, {arguments.rounds} rounds\n")
    print("| batch | method | tokens per second | faster than AR | forwards | positions | waiting |")
    print("|---|---|---|---|---|---|---|")
    rows, swept = [], []
    for size in map(int, arguments.sizes.split(",")):
        timed = take_turns(methods(checkpoint, size), [prompts], arguments.rounds)
        found = [row(name, one) for name, one in timed.items()]
        table(found, next(r for r in found if r["method"] == throughput.BASELINE))
        rows += found
        timed = take_turns(with_drafts(checkpoint, size), [prompts], arguments.rounds)
        swept += [row(name, one) for name, one in timed.items()]
    print(f"\n| batch | {' | '.join(f'{count} drafts' for count in DRAFTS)} |\n|---{'|---' * len(DRAFTS)}|")
    for size in dict.fromkeys(r["size"] for r in swept):
        speeds = [
            results.ranged([r["tokens"] / s for s in r["seconds"]], 0) for r in swept if r["size"] == size
        ]
        print(f"| {size} | {' | '.join(speeds)} |")
    if arguments.output:
        results.write(arguments.output, machine, {"prompts": len(prompts), "rows": rows, "drafts": swept})


if __name__ == "__main__":
    main()
