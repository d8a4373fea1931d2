"""A batch: slots for sequences on one model, which share one forward at a time."""

import itertools
from collections import deque
from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from mars_demo.core.scheduler import SCHEDULER
from mars_demo.core.trace import Pass
from mars_demo.decoding.reading import Forward, Reading, measure, read_measured
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.memory import require_caches
from mars_demo.serving.batch_sequence import BatchSequence
from mars_demo.serving.cache import RaggedCache

# Beyond this many positions of padding, a separate forward is cheaper: measured on a CPU, and estimated on
# a GPU, where a small model's forward takes as long as thousands of positions, a large one's as hundreds.
PADDING, GPU_PADDING = 64, 2048


class Batch:
    """Batch slots for sequences on one model, and the queue of those that wait for one.

    A waiting sequence takes a free slot at once, without `continuous` when all slots are free. Each step is
    one forward for the sequences whose turn it is, and finished sequences leave. `positions` counts the
    computed positions, padding included, and `waits` the sequences that a forward left waiting.

    Raises:
        ValueError: if the size is below 1, or the cache does not fit into the free memory.
    """

    def __init__(self, checkpoint: Checkpoint, size: int, columns: int, continuous: bool = True):
        if size < 1:
            raise ValueError(f"The batch size must be at least 1, not {size}.")
        require_caches(checkpoint, columns, size)
        self._cache = RaggedCache(checkpoint.model, size, columns)
        self.size, self._continuous = size, continuous
        self.waiting: deque[BatchSequence] = deque()
        self.active: list[BatchSequence] = []
        self.positions = self.forwards = self.waits = 0

    def _scheduled(self, forwards: dict[BatchSequence, Forward]) -> dict[BatchSequence, Forward]:
        """Return the forwards whose turn it is.

        All sequences are padded to the longest, and prompts are long. If padding would cost more than a
        separate forward, the longest new sequences compute first.
        """
        sizes = {sequence: f.layout.ids.shape[1] for sequence, f in forwards.items()}
        new = sorted((one for one in sizes if not one.run.passes), key=sizes.get, reverse=True)
        others = [size for sequence, size in sizes.items() if sequence.run.passes]
        padding = PADDING if self._cache.model.device.type == "cpu" else GPU_PADDING
        count = apart([sizes[sequence] for sequence in new], others, padding)
        return {sequence: forwards[sequence] for sequence in new[:count]} or forwards

    def step(self) -> list[tuple[BatchSequence, Pass]]:
        """Run the next forward in its own turn and return the sequences it advanced with their passes."""
        if self._continuous or not self.active:
            while self.waiting and len(self.active) < self.size:
                self.active.append(self.waiting.popleft())
        with SCHEDULER.turn():
            # Block cache: a sequence with a full block waits. Once every block is full, one forward commits
            # them all; it accepts no token, so no sequence moves. With the other caches, no block is full.
            computing = [sequence for sequence in self.active if not sequence.full] or self.active
            # A sequence keeps its forward, with the τ of that moment, until it is scheduled.
            forwards = self._scheduled({sequence: sequence.next_forward() for sequence in computing})
            readings = _read_all(self._cache.forward(forwards), forwards)
            steps = [(sequence, sequence.take(own)) for sequence, own in readings.items()]
        self.forwards += 1
        self.waits += len(self.active) - len(forwards)
        self.positions += _padded([f.layout.ids.shape[1] for f in forwards.values()])
        moved = [(sequence, step) for sequence, step in steps if step]
        for sequence, step in moved:
            if step.stop:
                self.active.remove(sequence)
                self._cache.clear(sequence)
        return moved


def apart(new: Sequence[int], others: Sequence[int], padding: int) -> int:
    """Return how many of the longest new sequences to compute in a forward before all others.

    new, others: the positions of the next forwards of sequences. padding: the cost of a forward in
        positions.
    """
    longest = sorted(new, reverse=True)
    costs = [
        _padded(longest[:count]) + _padded([*longest[count:], *others]) + padding * (count > 0)
        for count in range(len(new) + 1)
    ]
    return costs.index(min(costs))


def _padded(sizes: Collection[int]) -> int:
    """Return the positions of forwards of these sizes run as one, padding included."""
    return len(sizes) * max(sizes, default=0)


def _read_all(logits: Tensor, forwards: dict[BatchSequence, Forward]) -> dict[BatchSequence, list[Reading]]:
    """Return the readings of each sequence, at once unless requests score or sample differently."""
    counts = [f.layout.ids.shape[1] - f.first for f in forwards.values()]
    requests = [sequence.request for sequence in forwards]
    if any(request.grammar for request in requests):
        parts = zip(forwards.items(), logits.split(counts))
        return {sequence: sequence.read(part, forward) for (sequence, forward), part in parts}
    rules = {request.criterion for request in requests}
    if len(rules) > 1 or any(request.sampling for request in requests):
        parts = zip(forwards.values(), requests, logits.split(counts))
        measured = [
            measure(part, request.acceptance, forward.positions, request.sampling)
            for forward, request, part in parts
        ]
        readings = iter(read_measured(torch.cat(measured)))
    else:
        readings = iter(read_measured(measure(logits, requests[0].acceptance)))
    return {sequence: list(itertools.islice(readings, count)) for sequence, count in zip(forwards, counts)}
