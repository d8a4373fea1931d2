"""How fast prompts are answered in batches: AR, the paper's block cache, the cursor cache and lossless."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from mars_demo.batching import decode_batch, lossless_window
from mars_demo.chat import encode_prompt
from mars_demo.checkpoints import Checkpoint
from mars_demo.schedules import waiting

MAX_NEW_TOKENS = 128
TAU = 0.95
CACHE_BLOCKS = (4, 8, 16, 32, 64, 128)
GENERATE = "AR, transformers generate"
BASELINE = "AR, continuous"


@dataclass(frozen=True)
class Result:
    """All prompts answered by one method: wall-clock seconds, accepted tokens, forwards, the positions that
    they computed, padding included, and the share of places that waited."""

    method: str
    size: int
    seconds: float
    tokens: int
    forwards: int
    positions: int
    waiting: float

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


def methods(checkpoint: Checkpoint, size: int) -> dict[str, dict]:
    """The settings of `batching.decode_batch` of each method in a batch of `size` rows."""
    mars = {"mode": "mars", "tau": TAU}
    static = {"continuous": False}
    return {
        "AR, static": {"mode": "ar"} | static,
        BASELINE: {"mode": "ar"},
        f"MARS τ = {TAU}, no cache": mars | {"cache": "none"} | static,
        **{
            f"MARS τ = {TAU}, block cache {block}": mars | {"cache": "block", "cache_block": block} | static
            for block in CACHE_BLOCKS
        },
        f"MARS τ = {TAU}, cursor cache, static": mars | static,
        f"MARS τ = {TAU}, cursor cache": mars,
        f"lossless, {lossless_window(checkpoint, size) - 1} drafts, cursor cache": {"mode": "lossless"},
    }


def measure(checkpoint: Checkpoint, prompts: Sequence[str], size: int) -> Iterator[Result]:
    """A result per method as it is measured; transformers' `generate` first."""
    ours(checkpoint, prompts[:size], "warm-up", size, mode="ar")
    yield generate(checkpoint, prompts, size)
    for name, settings in methods(checkpoint, size).items():
        yield ours(checkpoint, prompts, name, size, **settings)


def ours(checkpoint: Checkpoint, prompts: Sequence[str], name: str, size: int, **settings) -> Result:
    """All prompts through `batching.decode_batch`."""
    started = time.perf_counter()
    done = decode_batch(checkpoint, prompts, size=size, max_new_tokens=MAX_NEW_TOKENS, **settings).finish()
    seconds = time.perf_counter() - started
    tokens, batch = sum(run.tokens for run in done.runs), done.batch
    waited = waiting(done.schedule.steps, len(batch.rows))
    return Result(name, size, seconds, tokens, batch.forwards, batch.positions, waited)


def generate(checkpoint: Checkpoint, prompts: Sequence[str], size: int) -> Result:
    """All prompts through transformers' own `generate`, in static batches padded on the left."""
    tokenizer, device = checkpoint.tokenizer, checkpoint.model.device
    pad = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    tokens = forwards = positions = 0
    started = time.perf_counter()
    encoded = [encode_prompt(tokenizer, prompt) for prompt in prompts]
    for start in range(0, len(encoded), size):
        part = encoded[start : start + size]
        width = max(map(len, part))
        ids = torch.tensor([[pad] * (width - len(p)) + p for p in part], device=device)
        real = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in part], device=device)
        output = checkpoint.model.generate(
            ids,
            attention_mask=real,
            do_sample=False,
            max_new_tokens=MAX_NEW_TOKENS,
            pad_token_id=pad,
            eos_token_id=sorted(checkpoint.end_ids),
        )[:, width:]
        for row in output.tolist():
            tokens += next((i + 1 for i, t in enumerate(row) if t in checkpoint.end_ids), len(row))
        forwards += output.shape[1]
        positions += ids.numel() + (output.shape[1] - 1) * len(part)
    return Result(GENERATE, size, time.perf_counter() - started, tokens, forwards, positions, 0.0)
