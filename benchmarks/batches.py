"""Batches on this machine: AR, the paper's block cache, the cursor cache and lossless, side by side.

    python -m benchmarks.batches [--model mars-tiny] [--sizes 1,2,4,8,16] [--prompts 48] [--output FILE]

All methods answer the same held-out prompts, each twice, of which the faster counts; ratios are of
wall-clock in one run. Behind the table: what wins at each batch size, and what lossless decoding makes of
more drafts or fewer, which is where `batching.LOSSLESS_DRAFTS` comes from.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from mars_demo import checkpoints, tasks, throughput
from mars_demo.checkpoints import Checkpoint
from mars_demo.throughput import Result

REPEATS = 2
DRAFTS = (1, 2, 3, 4, 6, 8)


def table(results: Sequence[Result]) -> None:
    """The methods at one batch size, against AR of this project in the same batch."""
    base = next(r for r in results if r.method == throughput.BASELINE).tokens_per_second
    for r in results:
        print(
            f"| {r.size} | {r.method} | {r.tokens_per_second:.0f} | {r.tokens_per_second / base:.2f}× "
            f"| {r.forwards} | {r.positions} | {r.waiting:.0%} |",
            flush=True,
        )


def drafts(checkpoint: Checkpoint, prompts: Sequence[str], size: int) -> list[Result]:
    """Lossless decoding with each number of drafts, the faster of two runs each."""
    return [
        min(
            (
                throughput.ours(
                    checkpoint,
                    prompts,
                    f"lossless, {count} drafts",
                    size,
                    mode="lossless",
                    window=count + 1,
                )
                for _ in range(REPEATS)
            ),
            key=lambda result: result.seconds,
        )
        for count in DRAFTS
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-tiny")
    parser.add_argument("--sizes", default="1,2,4,8,16")
    parser.add_argument("--prompts", type=int, default=48)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    checkpoint = checkpoints.load(arguments.model)
    per_task = max(1, arguments.prompts // len(tasks.TASKS))
    prompts = [example.prompt for example in tasks.mixed(per_task)]
    machine = f"{checkpoint.name}, {checkpoint.model.device.type}, {torch.get_num_threads()} threads"
    print(f"{machine}, {len(prompts)} prompts\n")
    print("| batch | method | tokens per second | faster than AR | forwards | positions | waiting |")
    print("|---|---|---|---|---|---|---|")
    results, swept = {}, {}
    for size in map(int, arguments.sizes.split(",")):
        results[size] = list(throughput.measure(checkpoint, prompts, size, REPEATS))
        table(results[size])
        swept[size] = drafts(checkpoint, prompts, size)
    print("\n| batch | fastest | faster than AR |\n|---|---|---|")
    for size, found in results.items():
        best = min(found, key=lambda r: r.seconds)
        base = next(r for r in found if r.method == throughput.BASELINE)
        print(f"| {size} | {best.method} | {base.seconds / best.seconds:.2f}× |")
    print(f"\n| batch | {' | '.join(f'{count} drafts' for count in DRAFTS)} |")
    print(f"|---{'|---' * len(DRAFTS)}|")
    for size, found in swept.items():
        print(f"| {size} | {' | '.join(f'{r.tokens_per_second:.0f}' for r in found)} |")
    if arguments.output:
        told = {"machine": machine, "prompts": len(prompts)}
        rows = [asdict(result) | told for found in results.values() for result in found]
        arguments.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
