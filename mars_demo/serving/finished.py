"""More prompts than anyone wants to keep the records of: each answer as soon as it is finished."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mars_demo.decoding.decode import prepare
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.messages import Encoded
from mars_demo.serving.batch import Batch, columns
from mars_demo.serving.decode_batch import fitted, passes
from mars_demo.serving.row import Row


def finished(
    checkpoint: Checkpoint, asked: Sequence[tuple[str | Encoded, Request]], size: int
) -> Iterator[tuple[int, Run]]:
    """The number and the run of each prompt, in the order in which they finish. Every prompt has a request
    of its own; up to `size` share a forward, and the next one takes a finished one's place at once.

    Nothing of a finished run is kept here.

    Raises:
        ValueError: if a prompt is too long, the checkpoint cannot do what is requested, or the cache does
            not fit into memory.
    """
    if not asked:
        return
    checkpoint, size = checkpoint.dense, min(size, len(asked))
    waiting: list[tuple[int, Row]] = []
    longest = window = 1
    for number, (prompt, request) in enumerate(asked):
        request = fitted(checkpoint, request, size)
        settings, strategy = prepare(checkpoint, prompt, request)
        waiting.append((number, Row(Run(settings), strategy, request)))
        longest = max(longest, settings.prompt_tokens + request.max_new_tokens)
        window = max(window, request.window)
    batch, numbers = Batch(checkpoint, size, columns(checkpoint, longest, window)), {}
    waiting.reverse()
    while waiting or batch.active:
        while waiting and batch.room:
            number, row = waiting.pop()
            numbers[id(row)] = number
            batch.admit(row)
        for row, step in passes(batch.step()):
            if step.stop:
                yield numbers.pop(id(row)), row.run
