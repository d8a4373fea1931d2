"""Throughput of batches: AR, the paper's block cache, the per-sequence cache and lossless.

    OMP_NUM_THREADS=1 python -m benchmarks.batches [--sizes 1 2 4 8 16] [--prompts 48] [--rounds 3]
        [--output FILE]

All methods answer the same held-out prompts and take turns in each round.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks import report
from benchmarks.timing import take_turns
from mars_demo import tasks
from mars_demo.core.acceptance import TAU
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.serving.batch_sequence import lossless_window
from mars_demo.serving.decode_batch import decode_batch

FILE = "batches.json"
OPTIONS = {"model": "mars-tiny", "sizes": [1, 2, 4, 8, 16], "prompts": 48, "rounds": 3}
MAX_NEW_TOKENS = 128
CACHE_BLOCKS = (4, 8, 16, 32, 64, 128)
GENERATE, BASELINE = "AR, transformers generate", "AR, continuous"
SHOWN = (
    GENERATE,
    "MARS τ = 0.95, block cache",
    "MARS τ = 0.95, per-sequence cache",
    "lossless, per-sequence cache",
)
Counts = dict[str, float]


def methods(checkpoint: Checkpoint, size: int) -> dict[str, Callable[[Sequence[str]], Counts]]:
    """Return the methods to compare in batches of `size` sequences."""

    def ours(mode: str, **settings) -> Callable[[Sequence[str]], Counts]:
        request = Request(mode, TAU, max_new_tokens=MAX_NEW_TOKENS)
        return lambda prompts: decoding(checkpoint, prompts, request, size, **settings)

    blocks = {
        f"MARS τ = {TAU}, block cache {block}": ours(
            "mars", cache="block", cache_block=block, continuous=False
        )
        for block in CACHE_BLOCKS
    }
    return {
        GENERATE: partial(generating, checkpoint, size=size, max_new_tokens=MAX_NEW_TOKENS),
        "AR, static": ours("ar", continuous=False),
        BASELINE: ours("ar"),
        f"MARS τ = {TAU}, no cache": ours("mars", cache="none", continuous=False),
        **blocks,
        f"MARS τ = {TAU}, per-sequence cache, static": ours("mars", continuous=False),
        f"MARS τ = {TAU}, per-sequence cache": ours("mars"),
        f"lossless, {lossless_window(checkpoint, size) - 1} drafts, per-sequence cache": ours("lossless"),
    }


def decoding(
    checkpoint: Checkpoint, prompts: Sequence[str], request: Request, size: int, **settings
) -> Counts:
    """Answer all prompts with `decode_batch`; positions include padding, `waiting` is of idle slots."""
    done = decode_batch(checkpoint, prompts, request, size=size, **settings).finish()
    batch = done.batch
    return {
        "tokens": sum(run.tokens for run in done.runs),
        "forwards": batch.forwards,
        "positions": batch.positions,
        "waiting": batch.waits / (batch.forwards * batch.size),
    }


def generating(checkpoint: Checkpoint, prompts: Sequence[str], size: int, max_new_tokens: int) -> Counts:
    """Answer all prompts with transformers' `generate` in static batches."""
    counts = {"tokens": 0, "forwards": 0, "positions": 0, "waiting": 0.0}
    for start in range(0, len(prompts), size):
        width, answers = generated(checkpoint, prompts[start : start + size], max_new_tokens)
        lengths = [*map(len, answers)]
        counts["tokens"] += sum(lengths)
        counts["forwards"] += max(lengths)
        counts["positions"] += (width + max(lengths) - 1) * len(lengths)
    return counts


def generated(
    checkpoint: Checkpoint, prompts: Sequence[str], max_new_tokens: int
) -> tuple[int, list[list[int]]]:
    """Return the padded prompt length of a batch, and the token ids of its answers, end tokens included."""
    tokenizer, ends = checkpoint.tokenizer, checkpoint.end_ids
    encoded = [encode_prompt(tokenizer, prompt) for prompt in prompts]
    padded = tokenizer.pad({"input_ids": encoded}, padding_side="left", return_tensors="pt")
    width = padded["input_ids"].shape[1]
    output = checkpoint.dense.model.generate(
        **padded.to(checkpoint.dense.model.device),
        do_sample=False,
        max_new_tokens=max_new_tokens,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=sorted(ends),
    )
    answers = output[:, width:].tolist()
    lengths = (next((i + 1 for i, id in enumerate(row) if id in ends), len(row)) for row in answers)
    return width, [row[:length] for row, length in zip(answers, lengths)]


def measure(model: str, sizes: list[int], prompts: int, rounds: int, output: Path) -> None:
    checkpoint = load_checkpoint(model)
    held_out = [example.prompt for example in tasks.mixed(max(1, prompts // len(tasks.TASKS)))]
    rows = []
    for size in sizes:
        for name, timed in take_turns(methods(checkpoint, size), [held_out], rounds).items():
            rows.append({"method": name, "size": size} | timed.counts())
    report.save(output, results.machine(checkpoint), {"prompts": len(held_out), "rows": rows})


def table(file: str | Path = FILE) -> str:
    """Return the speed-ups of the main methods; the page has all of them, in tokens per second."""
    measured, rows = results.read_results(file), {}
    base = {row["size"]: row for row in measured["rows"] if row["method"] == BASELINE}
    # The fastest first: of several sizes of block caches, the table has that one.
    for row in sorted(measured["rows"], key=lambda row: (row["size"], median(row["seconds"]))):
        kind = re.sub(r"(block cache|lossless,) \d+( drafts,)?", r"\1", row["method"])
        if kind in SHOWN:
            faster = report.faster(row["seconds"], base[row["size"]]["seconds"])
            rows.setdefault(kind, {"method": kind}).setdefault(f"batch {row['size']}", faster)
    return report.shown([rows[kind] for kind in SHOWN]) + report.source(
        measured, report.prompts(measured), report.rounds(measured)
    )


if __name__ == "__main__":
    report.run()
