"""Batches on this machine: AR, the paper's block cache, the cursor cache and lossless, side by side.

    python -m benchmarks.batches [--model mars-tiny] [--sizes 1,2,4,8,16] [--prompts 48] [--output FILE]

All methods answer the same held-out prompts; ratios are of wall-clock in one run. `generate` is
transformers' own, in static batches of prompts padded on the left.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from mars_demo import checkpoints, tasks
from mars_demo.batching import decode_batch
from mars_demo.chat import encode_prompt
from mars_demo.checkpoints import Checkpoint

MAX_NEW_TOKENS = 128
TAU = 0.95
CACHE_BLOCKS = (8, 16, 32, 64)


@dataclass(frozen=True)
class Result:
    method: str
    size: int
    seconds: float
    tokens: int
    forwards: int
    positions: int
    waiting: float


def generate(checkpoint: Checkpoint, prompts: Sequence[str], size: int) -> Result:
    tokenizer, pad = checkpoint.tokenizer, checkpoint.tokenizer.pad_token_id
    encoded = [encode_prompt(tokenizer, prompt) for prompt in prompts]
    tokens = forwards = positions = 0
    started = time.perf_counter()
    for start in range(0, len(encoded), size):
        part = encoded[start : start + size]
        width = max(map(len, part))
        ids = torch.tensor([[pad] * (width - len(p)) + p for p in part])
        real = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in part])
        output = checkpoint.model.generate(
            ids,
            attention_mask=real,
            do_sample=False,
            max_new_tokens=MAX_NEW_TOKENS,
            pad_token_id=pad,
            eos_token_id=sorted(checkpoint.end_ids),
        )[:, width:]
        for row in output.tolist():
            end = next((i + 1 for i, t in enumerate(row) if t in checkpoint.end_ids), len(row))
            tokens += end
        forwards += output.shape[1]
        positions += ids.numel() + (output.shape[1] - 1) * len(part)
    return Result(
        "AR, transformers generate", size, time.perf_counter() - started, tokens, forwards, positions, 0.0
    )


def ours(checkpoint: Checkpoint, prompts: Sequence[str], name: str, size: int, **settings) -> Result:
    started = time.perf_counter()
    done = decode_batch(checkpoint, prompts, size=size, max_new_tokens=MAX_NEW_TOKENS, **settings).finish()
    seconds = time.perf_counter() - started
    tokens, batch = sum(run.tokens for run in done.runs), done.batch
    return Result(name, size, seconds, tokens, batch.forwards, batch.positions, done.schedule.share("wait"))


def methods(size: int) -> dict[str, Callable]:
    mars = {"mode": "mars", "tau": TAU}
    drafts = 9 if size == 1 else 5 if size <= 4 else 3  # what fits a batch is fewer drafts per row
    chosen = {
        "AR, static": {"mode": "ar", "continuous": False},
        "AR, continuous": {"mode": "ar"},
        f"MARS τ = {TAU}, cursor cache": mars,
        f"lossless, {drafts - 1} drafts, cursor cache": {"mode": "lossless", "window": drafts},
    }
    for block in CACHE_BLOCKS:
        chosen[f"MARS τ = {TAU}, block cache {block}"] = mars | {
            "cache": "block",
            "cache_block": block,
            "continuous": False,
        }
    return chosen


def measure(checkpoint: Checkpoint, prompts: Sequence[str], sizes: Sequence[int]) -> Iterator[Result]:
    for size in sizes:
        ours(checkpoint, prompts[:size], "warm", size, mode="mars")
        yield generate(checkpoint, prompts, size)
        for name, settings in methods(size).items():
            yield ours(checkpoint, prompts, name, size, **settings)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-tiny")
    parser.add_argument("--sizes", default="1,2,4,8,16")
    parser.add_argument("--prompts", type=int, default=48)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    checkpoint = checkpoints.load(arguments.model)
    per_task = max(1, arguments.prompts // len(tasks.TASKS))
    prompts = [
        e.prompt for examples in zip(*(tasks.held_out(t, per_task) for t in tasks.TASKS)) for e in examples
    ]
    sizes = [int(size) for size in arguments.sizes.split(",")]
    print(
        f"{checkpoint.name}, {checkpoint.model.device.type}, {torch.get_num_threads()} threads, "
        f"{len(prompts)} prompts\n"
    )
    print("| batch | method | tokens per second | faster than AR | forwards | positions | waiting |")
    print("|---|---|---|---|---|---|---|")
    results, base = [], {}
    for result in measure(checkpoint, prompts, sizes):
        results.append(result)
        speed = result.tokens / result.seconds
        if result.method == "AR, continuous":
            base[result.size] = speed
        against = f"{speed / base[result.size]:.2f}×" if result.size in base else ""
        print(
            f"| {result.size} | {result.method} | {speed:.0f} | {against} | {result.forwards} "
            f"| {result.positions} | {result.waiting:.0%} |",
            flush=True,
        )
    if arguments.output:
        arguments.output.write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n")


if __name__ == "__main__":
    main()
