"""A sequence of a batch: its request, its next forward, and how much of that stays in the cache."""

from __future__ import annotations

from dataclasses import replace

from mars_demo.core.layout import causal
from mars_demo.core.messages import Encoded
from mars_demo.core.trace import Pass, Run
from mars_demo.decoding.decode import prepare, reader_of
from mars_demo.decoding.reading import Forward, Reading
from mars_demo.decoding.request import Request
from mars_demo.models.checkpoint import Checkpoint

CACHE_BLOCK = 32  # positions; the paper's best are 16 and 32
# Drafts that pay off, by the largest batch size: a larger batch has fewer positions to spare.
# Measured on a CPU: `git show 1e207af:assets/results/batches.json` has the rows.
LOSSLESS_DRAFTS = {4: 8, 1024: 4}


def fitted(checkpoint: Checkpoint, request: Request, size: int, cache: str = "ragged") -> Request:
    """Return the request with the window for a batch of `size` sequences.

    Prompt-lookup drafts are then no longer than the others: one long draft would pad all sequences.

    Raises:
        ValueError: if the checkpoint does not support the request.
    """
    has_window = request.window is not None
    request = replace(request, adaptive=False).fitted(checkpoint)  # costs are of a single sequence
    if cache not in request.rules.caches:
        raise ValueError(
            f"Mode {request.mode} cannot use the {cache} cache. Choose from "
            f"{', '.join(request.rules.caches)}."
        )
    if request.mode == "lossless" and not has_window:
        window = lossless_window(checkpoint, size)
        return replace(request, window=window, ngram_tokens=min(request.ngram_tokens, window - 1))
    return request


def lossless_window(checkpoint: Checkpoint, size: int) -> int:
    """Return the window of `lossless` in a batch of `size` sequences."""
    drafts = next((drafts for up_to, drafts in LOSSLESS_DRAFTS.items() if size <= up_to), 2)
    return min(drafts + 1, checkpoint.largest_window)


class BatchSequence:
    """The sequence of a prompt in a batch: a strategy with any of the caches.

    Every forward computes all tokens that are not cached. With the block cache, the sequence is `full` when
    these are more than a block, since the last token must remain to predict slot 1; its next forward
    commits the block. Without a cache, no token is ever cached.

    request: already `fitted`.

    Raises:
        ValueError: as `decode.prepare`.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        prompt: str | Encoded,
        request: Request,
        cache: str = "ragged",
        cache_block: int = CACHE_BLOCK,
    ):
        settings, self.answer, self.strategy = prepare(checkpoint, prompt, request)
        self.run, self.request = Run(settings), request
        self.read = reader_of(self.answer, request)
        self.cache, self.cache_block = cache, cache_block
        self.next: Forward | None = None

    @property
    def full(self) -> bool:
        if self.cache != "block" or not self.run.passes:
            return False
        return len(self.answer.text_ids) - self.answer.cached > self.cache_block

    def next_forward(self) -> Forward:
        """Return the forward to compute now; τ is read only here, however long the sequence has waited."""
        if self.full:
            cached = self.answer.cached
            block = self.answer.text_ids[cached : cached + self.cache_block]
            return Forward(causal(block, cached), first=len(block))
        self.next = self.next or next(self.strategy)
        return self.next

    def take(self, readings: list[Reading]) -> Pass | None:
        """Return the pass made from the readings; None if the forward only committed a block."""
        if self.full:
            self.answer.cached += self.cache_block
            self.run.commits += 1
            return None
        outcome = self.strategy.send(readings)
        if self.cache == "ragged" or (self.cache == "block" and not self.run.passes):
            self.answer.cached += outcome.keep
        self.run.add(outcome.step)
        self.next = None
        return outcome.step
