"""A batch: places for rows on one model, and one forward at a time for the rows whose turn it is."""

import itertools
import time
from collections.abc import Collection

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_demo.decoding.reading import Reading, fetch, measure
from mars_demo.decoding.strategy import Forward
from mars_demo.decoding.trace import Pass
from mars_demo.models import memory
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.modes import LONGEST_COPY
from mars_demo.scheduler import SCHEDULER
from mars_demo.serving.cache import CursorCache
from mars_demo.serving.row import Row
from mars_demo.serving.schedules import COMMIT, COMPUTE, WAIT

PADDING = 64  # more positions of padding than this cost a CPU more than a separate forward


class Batch:
    """Places for rows on one model. Rows are admitted while there is room, each step is one forward for the
    rows whose turn it is, and finished rows leave.

    `positions` counts what was computed, padding included; `seconds` is the time of the forwards.

    Raises:
        ValueError: if the cache of so many rows does not fit into the memory that is free.
    """

    def __init__(self, checkpoint: Checkpoint, size: int, columns: int):
        check_memory(checkpoint.model, size, columns)
        self._cache = CursorCache(checkpoint.model, size, columns)
        self.rows: list[Row | None] = [None] * size
        self.positions = self.forwards = 0
        self.seconds = 0.0

    @property
    def active(self) -> list[Row]:
        return [row for row in self.rows if row is not None]

    @property
    def room(self) -> int:
        return self.rows.count(None)

    def admit(self, row: Row) -> None:
        self.rows[self.rows.index(None)] = row

    def drop(self, row: Row) -> None:
        """Give a row's place back before it has finished."""
        self._leave(self.rows.index(row))

    def _leave(self, place: int) -> None:
        self.rows[place] = None
        self._cache.clear(place)

    def _chosen(self, wanted: dict[int, Forward]) -> dict[int, Forward]:
        """Return the rows whose turn it is. All rows are padded to the longest, and prompts are long, so if
        padding would cost more than a separate forward, new rows compute first."""
        new = {place: f for place, f in wanted.items() if not self.rows[place].run.passes}
        others = [f for place, f in wanted.items() if place not in new]
        apart = _padded(new.values()) + _padded(others)
        free = self._cache.model.device.type != "cpu"  # on a GPU, positions cost hardly anything
        return wanted if free or not new or _padded(wanted.values()) - apart <= PADDING else new

    def _wanted(self, computing: dict[int, Row]) -> tuple[dict[int, Forward], list[tuple[Row, Exception]]]:
        """Return what each of these rows wants computed. Those that cannot say it leave, each with its
        fault."""
        wanted, failed = {}, []
        for place, row in computing.items():
            try:
                wanted[place] = row.wanted()
            except Exception as error:
                self._leave(place)
                failed.append((row, error))
        return wanted, failed

    def _take(self, place: int, readings: list[Reading]) -> Pass | Exception | None:
        """Give a row its readings. It leaves with its last pass or with its fault."""
        row = self.rows[place]
        try:
            step, keep = row.take(readings)
        except Exception as error:
            self._leave(place)
            return error
        self._cache.commit(place, keep)
        if step is not None and step.stop:
            self._leave(place)
        return step

    def step(self) -> list[tuple[Row, Pass | Exception]]:
        """Run the next forward, in a turn of its own: the rows that it moved on, each with its pass. A row
        that failed has left, and its fault is in the place of a pass."""
        with SCHEDULER.turn():
            return self._step()

    def _step(self) -> list[tuple[Row, Pass | Exception]]:
        active = {place: row for place, row in enumerate(self.rows) if row is not None}
        computing = {place: row for place, row in active.items() if not row.full}
        state = COMPUTE
        for row in active.values():
            row.state = WAIT
        if not computing:  # every block is full: one forward puts it into the cache
            computing, state = active, COMMIT
            for row in active.values():
                row.closing = True
        started = time.perf_counter()
        wanted, moved = self._wanted(computing)
        if not wanted:
            return moved
        wanted = self._chosen(wanted)
        readings = _read_all(self._cache.forward(wanted), wanted, computing)
        self.seconds += time.perf_counter() - started
        self.forwards += 1
        self.positions += _padded(wanted.values())
        for place in wanted:
            computing[place].state = state
            step = self._take(place, readings[place])
            if step is not None:
                moved.append((computing[place], step))
        return moved


def _padded(forwards: Collection[Forward]) -> int:
    """Return the positions of one forward for all, padding included."""
    return len(forwards) * max((f.layout.ids.shape[1] for f in forwards), default=0)


def _read_all(logits: Tensor, wanted: dict[int, Forward], rows: dict[int, Row]) -> dict[int, list[Reading]]:
    """Return the readings of each row, at once unless requests score or draw differently."""
    counts = [f.layout.ids.shape[1] - f.first for f in wanted.values()]
    requests = [rows[place].request for place in wanted]
    rules = {request.criterion for request in requests}
    if len(rules) > 1 or any(request.sampling for request in requests):
        parts = zip(wanted.values(), requests, logits.split(counts))
        measured = [
            measure(part, request.acceptance, forward.positions, request.sampling)
            for forward, request, part in parts
        ]
        readings = iter(fetch(torch.cat(measured)))
    else:
        readings = iter(fetch(measure(logits, requests[0].acceptance)))
    return {place: list(itertools.islice(readings, count)) for place, count in zip(wanted, counts)}


def check_memory(model: PreTrainedModel, rows: int, columns: int) -> None:
    config = model.config
    heads = config.num_key_value_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    a_row = 2 * config.num_hidden_layers * heads * size * columns * model.dtype.itemsize
    free = memory.available(str(model.device))
    if rows * a_row > free:
        raise ValueError(
            f"The cache of {rows} rows needs {rows * a_row / 2**30:.1f} GiB of memory and "
            f"{free / 2**30:.1f} GiB are free, enough for {free // a_row} rows."
        )


def columns(checkpoint: Checkpoint, longest: int, window: int) -> int:
    """Return what a row of the cache must hold: a text, any one forward, and padding."""
    tokens = max(window, LONGEST_COPY + 1)  # that a forward can accept; a group of masks follows each
    return min(longest, checkpoint.context) + tokens * window + 2 * tokens + 1
