"""Batched decoding: each sequence decodes as it would alone and shares its forwards with the others.

Sequences run the strategies of `decoding`; only the schedule differs. With the per-sequence cache
(`ragged`) no sequence waits, and the next prompt takes the slot of a finished one. With the paper's block
cache, sequences that have filled a block wait until all have. Without a cache every forward computes the
whole text again.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Self

from mars_demo.core.messages import Encoded
from mars_demo.core.modes import CACHES
from mars_demo.core.trace import Pass, Run
from mars_demo.decoding.request import Request
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.serving.batch import Batch, columns
from mars_demo.serving.batch_sequence import CACHE_BLOCK, BatchSequence, fitted
from mars_demo.show.schedules import FREE, Schedule


class Decoding:
    """Prompts decoded together; iterating yields the numbers of the runs that each forward advanced."""

    def __init__(self, sequences: list[BatchSequence], batch: Batch, title: str, continuous: bool):
        self.runs, self.batch = [sequence.run for sequence in sequences], batch
        self.schedule = Schedule(title, [run.settings.prompt for run in self.runs])
        self._sequences, self._waiting, self._continuous = sequences, deque(sequences), continuous

    def __iter__(self) -> Iterator[list[int]]:
        number = {id(sequence): index for index, sequence in enumerate(self._sequences)}
        while self._waiting or self.batch.active:
            before = self.batch.seconds
            moved = _advance(self.batch, self._waiting, self._continuous)
            self.schedule.steps.append([sequence.state for sequence in self._sequences])
            self.schedule.ms.append(round(1000 * (self.batch.seconds - before), 3))
            for sequence, step in moved:
                if step.stop:
                    sequence.state = FREE
            yield [number[id(sequence)] for sequence, _ in moved]

    def finish(self) -> Self:
        for _ in self:
            pass
        return self


def _advance(
    batch: Batch, waiting: deque[BatchSequence], continuous: bool = True
) -> list[tuple[BatchSequence, Pass]]:
    """Admit waiting sequences, run a forward, and return the sequences it advanced with their passes.

    With `continuous`, a sequence is admitted as soon as a slot is free, otherwise once the batch is empty.

    Raises:
        Exception: the first error of a sequence, which ends the batch.
    """
    if continuous or not batch.active:
        while waiting and batch.room:
            batch.admit(waiting.popleft())
    moved = batch.step()
    for _, step in moved:
        if isinstance(step, Exception):
            raise step
    return moved


def decode_batch(
    checkpoint: Checkpoint,
    prompts: Sequence[str],
    request: Request = Request(),  # noqa: B008
    *,
    size: int = 8,
    cache: str = "ragged",
    cache_block: int = CACHE_BLOCK,
    continuous: bool = True,
) -> Decoding:
    """Decode the prompts as `request` says, at most `size` at a time.

    cache: `ragged`, a length per sequence; `block`, the paper's block-level cache of `cache_block`
        positions; `none`, every forward computes the whole text.
    continuous: whether a waiting prompt takes a free slot at once, or when all sequences have finished.

    Raises:
        ValueError: if there is no prompt, `size` or `cache_block` is below 1, the cache does not fit into
            memory, or the checkpoint does not support the request. If a prompt is too long, the message
            has its number.
    """
    _check(prompts, size, cache, cache_block)
    size = min(size, len(prompts))
    checkpoint = checkpoint.dense
    request = fitted(checkpoint, request, size, cache)
    sequences = []
    for number, prompt in enumerate(prompts, start=1):
        try:
            sequences.append(BatchSequence.of(checkpoint, prompt, request, cache, cache_block))
        except ValueError as error:
            raise ValueError(f"Prompt {number}: {error}") from error
    batch = _batch(checkpoint, sequences, size, cache_block if cache == "block" else 0)
    titles = {
        "ragged": "Per-sequence cache",
        "block": f"Block cache, {cache_block} positions",
        "none": "No cache",
    }
    return Decoding(sequences, batch, titles[cache], continuous)


def _check(prompts: Sequence[str], size: int, cache: str, cache_block: int) -> None:
    if not prompts:
        raise ValueError("The batch is empty; give at least one prompt.")
    if size < 1:
        raise ValueError(f"The batch size must be at least 1, not {size}.")
    if cache not in CACHES:
        raise ValueError(f"Unknown cache {cache!r}. Choose from {', '.join(CACHES)}.")
    if cache_block < 1:
        raise ValueError(f"The cache block must have at least 1 position, not {cache_block}.")


def finished(
    checkpoint: Checkpoint, requests: Sequence[tuple[str | Encoded, Request]], size: int
) -> Iterator[tuple[int, Run]]:
    """Yield the number and the run of each prompt as soon as it is finished, without keeping it.

    Every prompt has a request of its own. Up to `size` share a forward, and the next prompt takes a free
    slot at once.

    Raises:
        ValueError: if a prompt is too long, the checkpoint does not support a request, or the cache does
            not fit into memory.
    """
    if not requests:
        return
    checkpoint, size = checkpoint.dense, min(size, len(requests))
    waiting = deque(
        BatchSequence.of(checkpoint, prompt, fitted(checkpoint, request, size))
        for prompt, request in requests
    )
    numbers = {id(sequence): number for number, sequence in enumerate(waiting)}
    batch = _batch(checkpoint, waiting, size)
    while waiting or batch.active:
        for sequence, step in _advance(batch, waiting):
            if step.stop:
                yield numbers.pop(id(sequence)), sequence.run


def _batch(checkpoint: Checkpoint, sequences: Collection[BatchSequence], size: int, more: int = 0) -> Batch:
    """Return a batch with room for the longest of these sequences, and `more` positions."""
    longest = max(one.run.settings.prompt_tokens + one.request.max_new_tokens for one in sequences)
    window = max(one.request.window for one in sequences)
    return Batch(checkpoint, size, columns(checkpoint, longest, window) + more)
