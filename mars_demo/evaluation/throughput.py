"""Throughput in batches: AR, the paper's block cache, the per-sequence cache and lossless."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mars_demo.core.acceptance import TAU
from mars_demo.core.scheduler import SCHEDULER, Clock
from mars_demo.decoding.request import Request
from mars_demo.models.chat import encode_prompt, left_padded, pad_id
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.serving.batch_sequence import CACHE_BLOCK, lossless_window
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.show.schedules import waiting

MAX_NEW_TOKENS = 128
CACHE_BLOCKS = (4, 8, 16, 32, 64, 128)
GENERATE = "AR, transformers generate"
BASELINE = "AR, continuous"


@dataclass(frozen=True)
class Result:
    """The throughput of one method; positions include padding, `waiting` is the share of idle slots."""

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
    """A request with the settings of `decode_batch`."""

    request: Request
    cache: str = "ragged"
    cache_block: int = CACHE_BLOCK
    continuous: bool = True


def methods(checkpoint: Checkpoint, size: int) -> dict[str, Method]:
    """Return the methods to compare in batches of `size` sequences."""
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
        f"MARS τ = {TAU}, per-sequence cache, static": Method(mars, continuous=False),
        f"MARS τ = {TAU}, per-sequence cache": Method(mars),
        f"lossless, {lossless_window(checkpoint, size) - 1} drafts, per-sequence cache": Method(lossless),
    }


@dataclass(frozen=True)
class Progress:
    """The number of prompts that a method has answered."""

    method: str
    answered: int


def measure(checkpoint: Checkpoint, prompts: Sequence[str], size: int) -> Iterator[Result | Progress]:
    """Yield a result per method, transformers' `generate` first, and progress in between."""
    chosen = methods(checkpoint, size)
    for _ in decoding(checkpoint, prompts[:size], "warm-up", size, chosen[BASELINE]):
        pass
    yield from generating(checkpoint, prompts, size)
    for name, method in chosen.items():
        yield from decoding(checkpoint, prompts, name, size, method)


def decoding(
    checkpoint: Checkpoint, prompts: Sequence[str], name: str, size: int, method: Method
) -> Iterator[Result | Progress]:
    """Answer all prompts with `decode_batch`; yield progress, then the result."""
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
    waited = waiting(done.schedule.steps, batch.size)
    yield Result(name, size, clock.seconds, tokens, batch.forwards, batch.positions, waited)


def generating(
    checkpoint: Checkpoint, prompts: Sequence[str], size: int, max_new_tokens: int = MAX_NEW_TOKENS
) -> Iterator[Result | Progress]:
    """Answer all prompts with transformers' `generate` in static batches, one turn per batch."""
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
    """Return the padded prompt length of a batch, and the answers' ids with their end tokens."""
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
    ends = checkpoint.end_ids
    answers = [
        row[: next((i + 1 for i, id in enumerate(row) if id in ends), len(row))] for row in output.tolist()
    ]
    return ids.shape[1], answers
