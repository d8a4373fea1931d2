"""How fast prompts are answered in batches: AR, the paper's block cache, the cursor cache and lossless."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from mars_demo.decoding.request import Request
from mars_demo.models.chat import encode_prompt, left_padded, pad_id
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.scheduler import SCHEDULER, Clock
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


@dataclass(frozen=True)
class Progress:
    """How many prompts a method has answered."""

    method: str
    answered: int


def measure(checkpoint: Checkpoint, prompts: Sequence[str], size: int) -> Iterator[Result | Progress]:
    """A result per method as soon as it is measured, transformers' `generate` first, and in between how far
    a method is. No clock counts what is done with these."""
    chosen = methods(checkpoint, size)
    ours(checkpoint, prompts[:size], "warm-up", size, chosen[BASELINE])
    yield from _generating(checkpoint, prompts, size, MAX_NEW_TOKENS)
    for name, method in chosen.items():
        yield from _decoding(checkpoint, prompts, name, size, method)


def ours(checkpoint: Checkpoint, prompts: Sequence[str], name: str, size: int, method: Method) -> Result:
    """All prompts through `serving.decode_batch`."""
    *_, result = _decoding(checkpoint, prompts, name, size, method)
    return result


def generate(
    checkpoint: Checkpoint, prompts: Sequence[str], size: int, max_new_tokens: int = MAX_NEW_TOKENS
) -> Result:
    """All prompts through transformers' own `generate`, in static batches padded on the left."""
    *_, result = _generating(checkpoint, prompts, size, max_new_tokens)
    return result


def _decoding(
    checkpoint: Checkpoint, prompts: Sequence[str], name: str, size: int, method: Method
) -> Iterator[Result | Progress]:
    clock = Clock()
    with clock.running():
        done = decode_batch(
            checkpoint,
            prompts,
            method.request,
            size=size,
            cache=method.cache,
            cache_block=method.cache_block,
            continuous=method.continuous,
        )
    steps = iter(done)
    while True:
        with clock.running():
            moved = next(steps, None)
        if moved is None:
            break
        yield Progress(name, sum(run.stop is not None for run in done.runs))
    tokens, batch = sum(run.tokens for run in done.runs), done.batch
    waited = waiting(done.schedule.steps, len(batch.rows))
    yield Result(name, size, clock.seconds, tokens, batch.forwards, batch.positions, waited)


def _generating(
    checkpoint: Checkpoint, prompts: Sequence[str], size: int, max_new_tokens: int
) -> Iterator[Result | Progress]:
    """A turn for each batch: its forwards cannot be had one by one."""
    checkpoint, clock = checkpoint.dense, Clock()
    tokens = forwards = positions = 0
    for start in range(0, len(prompts), size):
        part = prompts[start : start + size]
        with clock.running(), SCHEDULER.turn():
            width, rows = _generated(checkpoint, part, max_new_tokens)
        tokens += sum(map(len, rows))
        longest = max(map(len, rows))
        forwards += longest
        positions += (width + longest - 1) * len(part)
        yield Progress(GENERATE, start + len(part))
    yield Result(GENERATE, size, clock.seconds, tokens, forwards, positions, 0.0)


def _generated(
    checkpoint: Checkpoint, prompts: Sequence[str], max_new_tokens: int
) -> tuple[int, list[list[int]]]:
    """The width of a batch of padded prompts, and the answers' ids, the end token included."""
    tokenizer = checkpoint.tokenizer
    encoded = [encode_prompt(tokenizer, prompt) for prompt in prompts]
    ids, real = left_padded(encoded, pad_id(tokenizer), checkpoint.model.device)
    output = checkpoint.model.generate(
        ids,
        attention_mask=real,
        do_sample=False,
        max_new_tokens=max_new_tokens,
        pad_token_id=pad_id(tokenizer),
        eos_token_id=sorted(checkpoint.end_ids),
    )[:, ids.shape[1] :]
    return ids.shape[1], [_ended(row, checkpoint.end_ids) for row in output.tolist()]


def _ended(ids: list[int], ends: Collection[int]) -> list[int]:
    """Up to the first end token; the rest is padding."""
    return ids[: next((i + 1 for i, id in enumerate(ids) if id in ends), len(ids))]
