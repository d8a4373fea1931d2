"""Many prompts at once: every row decodes as it would alone and shares its forwards with the others.

Rows run the strategies of `decoding`; only whose turn it is differs. With the cursor cache each row has
its own length, so no row waits, and a finished row's place goes to the next prompt. With the block cache of
the paper, rows that have filled a block wait until all have. Without a cache every forward computes the
whole text again.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Self

from mars_demo.decoding.decode import prepare
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Pass, Run
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.messages import Encoded
from mars_demo.modes import CACHES
from mars_demo.serving.batch import Batch, columns
from mars_demo.serving.row import CACHE_BLOCK, Row
from mars_demo.serving.schedules import FREE, Schedule


class Decoding:
    """Prompts decoded together. Iterating yields the numbers of the runs that each forward moved on."""

    def __init__(self, rows: list[Row], batch: Batch, title: str, continuous: bool):
        self.runs, self.batch = [row.run for row in rows], batch
        self.schedule = Schedule(title, [run.settings.prompt for run in self.runs])
        self._rows, self._waiting, self._continuous = rows, deque(rows), continuous

    def __iter__(self) -> Iterator[list[int]]:
        number = {id(row): index for index, row in enumerate(self._rows)}
        while self._waiting or self.batch.active:
            before = self.batch.seconds
            moved = _advance(self.batch, self._waiting, self._continuous)
            self.schedule.steps.append([row.state for row in self._rows])
            self.schedule.ms.append(round(1000 * (self.batch.seconds - before), 3))
            for row, step in moved:
                if step.stop:
                    row.state = FREE
            yield [number[id(row)] for row, _ in moved]

    def finish(self) -> Self:
        for _ in self:
            pass
        return self


def _advance(batch: Batch, waiting: deque[Row], continuous: bool = True) -> list[tuple[Row, Pass]]:
    """Admit waiting rows, each as soon as there is room or all at once, and run the next forward: the rows
    that it moved on, each with its pass. The fault of one row ends them all."""
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
    cache: str = "cursor",
    cache_block: int = CACHE_BLOCK,
    continuous: bool = True,
) -> Decoding:
    """Decode every prompt as `request` says, at most `size` at a time.

    cache: `cursor`, a length per row; `block`, the paper's block-level cache of `cache_block` positions;
        `none`, every forward computes the whole text.
    continuous: whether a waiting prompt takes a finished row's place at once, or when all have finished.

    Raises:
        ValueError: if there is no prompt, `size` or `cache_block` is below 1, the cache does not fit into
            memory, or the checkpoint cannot do what is requested. If a prompt is too long, the message
            has its number.
    """
    _check(prompts, size, cache, cache_block)
    size = min(size, len(prompts))
    checkpoint = checkpoint.dense
    request = fitted(checkpoint, request, size, cache)
    rows = []
    for number, prompt in enumerate(prompts, start=1):
        try:
            settings, strategy = prepare(checkpoint, prompt, request)
        except ValueError as error:
            raise ValueError(f"Prompt {number}: {error}") from error
        rows.append(Row(Run(settings), strategy, request, cache, cache_block))
    longest = max(row.run.settings.prompt_tokens for row in rows) + request.max_new_tokens
    more = cache_block if cache == "block" else 0
    batch = Batch(checkpoint, size, columns(checkpoint, longest, request.window) + more)
    titles = {
        "cursor": "Cursor cache",
        "block": f"Block cache, {cache_block} positions",
        "none": "No cache",
    }
    return Decoding(rows, batch, titles[cache], continuous)


def _check(prompts: Sequence[str], size: int, cache: str, cache_block: int) -> None:
    if not prompts:
        raise ValueError("The batch is empty; give at least one prompt.")
    if size < 1:
        raise ValueError(f"The batch size must be at least 1, not {size}.")
    if cache not in CACHES:
        raise ValueError(f"Unknown cache {cache!r}. Choose from {', '.join(CACHES)}.")
    if cache_block < 1:
        raise ValueError(f"The cache block must have at least 1 position, not {cache_block}.")


def fitted(checkpoint: Checkpoint, request: Request, size: int, cache: str = "cursor") -> Request:
    """Return the request with the window that suits a batch of `size` rows. Copies are then no longer than
    other drafts: one row's long draft would pad all rows.

    Raises:
        ValueError: if the checkpoint cannot do what is requested.
    """
    named = request.window is not None
    request = replace(request, costs=None).fitted(checkpoint)  # those of one prompt at a time
    if cache not in request.rules.caches:
        raise ValueError(
            f"Mode {request.mode} cannot use the {cache} cache. Choose from "
            f"{', '.join(request.rules.caches)}."
        )
    if request.mode == "lossless" and not named:
        window = lossless_window(checkpoint, size)
        return replace(request, window=window, copies=min(request.copies, window - 1))
    return request


# Up to so many rows, so many drafts are worth their positions: a larger batch has fewer positions to spare.
# Measured on a CPU; see docs/decisions.md.
LOSSLESS_DRAFTS = {4: 8, 1024: 4}


def lossless_window(checkpoint: Checkpoint, size: int) -> int:
    """Return the window of `lossless` in a batch of `size` rows."""
    drafts = next((drafts for up_to, drafts in LOSSLESS_DRAFTS.items() if size <= up_to), 2)
    return min(drafts + 1, checkpoint.largest_window)


def finished(
    checkpoint: Checkpoint, asked: Sequence[tuple[str | Encoded, Request]], size: int
) -> Iterator[tuple[int, Run]]:
    """Yield the number and the run of each prompt as soon as it is finished, and keep nothing of it.

    Every prompt has a request of its own. Up to `size` share a forward, and the next one takes a finished
    one's place at once.

    Raises:
        ValueError: if a prompt is too long, the checkpoint cannot do what is requested, or the cache does
            not fit into memory.
    """
    if not asked:
        return
    checkpoint, size = checkpoint.dense, min(size, len(asked))
    waiting, numbers = deque(), {}
    longest = window = 1
    for number, (prompt, request) in enumerate(asked):
        request = fitted(checkpoint, request, size)
        settings, strategy = prepare(checkpoint, prompt, request)
        waiting.append(Row(Run(settings), strategy, request))
        numbers[id(waiting[-1])] = number
        longest = max(longest, settings.prompt_tokens + request.max_new_tokens)
        window = max(window, request.window)
    batch = Batch(checkpoint, size, columns(checkpoint, longest, window))
    while waiting or batch.active:
        for row, step in _advance(batch, waiting):
            if step.stop:
                yield numbers.pop(id(row)), row.run
