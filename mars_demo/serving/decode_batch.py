"""Batched decoding: each sequence decodes as it would alone in the same precision, and shares its forwards.

Sequences run the strategies of `decoding`; only the schedule differs. With the per-sequence cache
(`ragged`) no sequence waits, and the next prompt takes the slot of a finished one. With the paper's block
cache, sequences that have filled a block wait until all have. Without a cache every forward computes the
whole text again.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Self

from mars_demo.core.messages import Encoded
from mars_demo.core.modes import LONGEST_NGRAM_DRAFT
from mars_demo.core.trace import Pass, Run
from mars_demo.decoding.request import Request
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.serving.batch import Batch
from mars_demo.serving.batch_sequence import CACHE_BLOCK, BatchSequence, fitted


class Decoding:
    """Prompts decoded together; iterating yields the numbers of the runs that each forward advanced."""

    def __init__(self, sequences: list[BatchSequence], batch: Batch):
        self.runs, self.batch = [sequence.run for sequence in sequences], batch
        self._numbers = {sequence: number for number, sequence in enumerate(sequences)}

    def __iter__(self) -> Iterator[list[int]]:
        for moved in _steps(self.batch):
            yield sorted(self._numbers[sequence] for sequence, _ in moved)

    def finish(self) -> Self:
        for _ in self:
            pass
        return self


def _steps(batch: Batch) -> Iterator[list[tuple[BatchSequence, Pass]]]:
    """Run forwards until all sequences have ended; yield those that each advanced with their passes."""
    while batch.waiting or batch.active:
        yield batch.step()


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
    if not prompts:
        raise ValueError("The batch is empty; give at least one prompt.")
    if cache_block < 1:
        raise ValueError(f"The cache block must have at least 1 position, not {cache_block}.")
    size = min(size, len(prompts))
    checkpoint = checkpoint.dense
    request = fitted(checkpoint, request, size, cache)
    sequences = []
    for number, prompt in enumerate(prompts, start=1):
        try:
            sequences.append(BatchSequence(checkpoint, prompt, request, cache, cache_block))
        except ValueError as error:
            raise ValueError(f"Prompt {number}: {error}") from error
    return Decoding(sequences, _batch(checkpoint, sequences, size, continuous))


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
    numbers = {
        BatchSequence(checkpoint, prompt, fitted(checkpoint, request, size)): number
        for number, (prompt, request) in enumerate(requests)
    }
    for moved in _steps(_batch(checkpoint, numbers, size)):
        for sequence, step in moved:
            if step.stop:
                yield numbers.pop(sequence), sequence.run


def _batch(
    checkpoint: Checkpoint, sequences: Collection[BatchSequence], size: int, continuous: bool = True
) -> Batch:
    """Return a batch of these sequences, with room for the longest text, a forward and padding."""
    longest = max(
        sequence.run.settings.prompt_tokens + sequence.request.max_new_tokens for sequence in sequences
    )
    window = max(sequence.request.window for sequence in sequences)
    tokens = max(window, LONGEST_NGRAM_DRAFT + 1)  # most tokens of a forward; a group of masks follows each
    columns = min(longest, checkpoint.context) + tokens * window + 2 * tokens + 1
    batch = Batch(checkpoint, size, columns, continuous)
    batch.waiting.extend(sequences)
    return batch
