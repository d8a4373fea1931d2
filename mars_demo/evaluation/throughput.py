"""How fast prompts are answered in batches: AR, the paper's block cache, the cursor cache and lossless."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mars_demo.decoding.request import Request
from mars_demo.models.chat import encode_prompt, left_padded, pad_id
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.serving.decode_batch import decode_batch, lossless_window
from mars_demo.serving.row import CACHE_BLOCK
from mars_demo.serving.schedules import waiting

MAX_NEW_TOKENS = 128
TAU = 0.95
CACHE_BLOCKS = (4, 8, 16, 32, 64, 128)
GENERATE = "AR, transformers generate"
BASELINE = "AR, continuous"


@dataclass(frozen=True)
class Result:
    """All prompts answered by one method: wall-clock seconds, accepted tokens, forwards, the positions they
    computed, padding included, and the share of places that waited."""

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


@dataclass(frozen=True)
class Method:
    """How a batch is decoded: the request, and the batch's own settings of `decode_batch`."""

    request: Request
    cache: str = "cursor"
    cache_block: int = CACHE_BLOCK
    continuous: bool = True


def methods(checkpoint: Checkpoint, size: int) -> dict[str, Method]:
    """Each method in a batch of `size` rows."""
    ar = Request("ar", max_new_tokens=MAX_NEW_TOKENS)
    mars = Request("mars", TAU, max_new_tokens=MAX_NEW_TOKENS)
    lossless = Request("lossless", max_new_tokens=MAX_NEW_TOKENS)
    return {
        "AR, static": Method(ar, continuous=False),
        BASELINE: Method(ar),
        f"MARS τ = {TAU}, no cache": Method(mars, "none", continuous=False),
        **{
            f"MARS τ = {TAU}, block cache {block}": Method(mars, "block", block, continuous=False)
            for block in CACHE_BLOCKS
        },
        f"MARS τ = {TAU}, cursor cache, static": Method(mars, continuous=False),
        f"MARS τ = {TAU}, cursor cache": Method(mars),
        f"lossless, {lossless_window(checkpoint, size) - 1} drafts, cursor cache": Method(lossless),
    }


def measure(checkpoint: Checkpoint, prompts: Sequence[str], size: int) -> Iterator[Result]:
    """A result per method as soon as it is measured; transformers' `generate` first."""
    chosen = methods(checkpoint, size)
    ours(checkpoint, prompts[:size], "warm-up", size, chosen[BASELINE])
    yield generate(checkpoint, prompts, size)
    for name, method in chosen.items():
        yield ours(checkpoint, prompts, name, size, method)


def ours(checkpoint: Checkpoint, prompts: Sequence[str], name: str, size: int, method: Method) -> Result:
    """All prompts through `serving.decode_batch`."""
    started = time.perf_counter()
    done = decode_batch(
        checkpoint,
        prompts,
        method.request,
        size=size,
        cache=method.cache,
        cache_block=method.cache_block,
        continuous=method.continuous,
    ).finish()
    seconds = time.perf_counter() - started
    tokens, batch = sum(run.tokens for run in done.runs), done.batch
    waited = waiting(done.schedule.steps, len(batch.rows))
    return Result(name, size, seconds, tokens, batch.forwards, batch.positions, waited)


def generate(
    checkpoint: Checkpoint, prompts: Sequence[str], size: int, max_new_tokens: int = MAX_NEW_TOKENS
) -> Result:
    """All prompts through transformers' own `generate`, in static batches padded on the left."""
    checkpoint = checkpoint.dense
    tokenizer, device = checkpoint.tokenizer, checkpoint.model.device
    tokens = forwards = positions = 0
    started = time.perf_counter()
    encoded = [encode_prompt(tokenizer, prompt) for prompt in prompts]
    for start in range(0, len(encoded), size):
        part = encoded[start : start + size]
        ids, real = left_padded(part, pad_id(tokenizer), device)
        width = ids.shape[1]
        output = checkpoint.model.generate(
            ids,
            attention_mask=real,
            do_sample=False,
            max_new_tokens=max_new_tokens,
            pad_token_id=pad_id(tokenizer),
            eos_token_id=sorted(checkpoint.end_ids),
        )[:, width:]
        for row in output.tolist():
            tokens += next((i + 1 for i, t in enumerate(row) if t in checkpoint.end_ids), len(row))
        forwards += output.shape[1]
        positions += ids.numel() + (output.shape[1] - 1) * len(part)
    return Result(GENERATE, size, time.perf_counter() - started, tokens, forwards, positions, 0.0)
