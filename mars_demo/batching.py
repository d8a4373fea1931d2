"""Many prompts at once: every row decodes as it would alone, and shares its forwards with the others.

Rows are the strategies of `decoding`; what differs is whose turn it is. With the cursor cache each row has
its own length, so nobody waits, and a finished row's place goes to the next prompt. With the block cache of
the paper, rows that have filled a block wait until all have.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import CacheLayerMixin

from mars_demo import layout as layouts
from mars_demo.checkpoints import Checkpoint
from mars_demo.decoding import Forward, Strategy, prepare
from mars_demo.layout import Layout
from mars_demo.schedules import COMMIT, COMPUTE, FREE, WAIT, Schedule
from mars_demo.trace import Pass, Run, Settings


class Places:
    """Where the positions of the next forward go: the batch rows that take part, and for each of their new
    positions its column; columns from `width` on are not looked at."""

    rows: Tensor
    columns: Tensor
    width: int


class CursorLayer(CacheLayerMixin):
    """Keys and values of one layer, [rows, heads, columns, size], written wherever `places` says."""

    is_sliding = False

    def __init__(self, places: Places, rows: int, columns: int):
        super().__init__()
        self.places, self.shape = places, (rows, columns)

    def lazy_initialization(self, keys: Tensor, values: Tensor) -> None:
        rows, columns = self.shape
        self.keys = keys.new_zeros(rows, keys.shape[1], columns, keys.shape[3])
        self.values = values.new_zeros(rows, values.shape[1], columns, values.shape[3])
        self.is_initialized = True

    def update(self, keys: Tensor, values: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        places = self.places
        at = (places.rows[:, None], slice(None), places.columns)
        # Indexing with a tensor on both sides of a slice puts the indexed dimensions first.
        self.keys[at] = keys.transpose(1, 2)
        self.values[at] = values.transpose(1, 2)
        everybody = len(places.rows) == self.keys.shape[0]
        chosen = slice(None) if everybody else places.rows
        return self.keys[chosen, :, : places.width], self.values[chosen, :, : places.width]

    def get_seq_length(self) -> int:
        return 0  # there is no single one; layouts carry positions and masks of their own

    def get_max_length(self) -> int:
        return self.shape[1]

    def get_mask_sizes(self, *args, **kwargs) -> tuple[int, int]:
        return self.places.width, 0


class CursorCache:
    """A KV cache of many texts, each with its own length, on one model."""

    def __init__(self, model: PreTrainedModel, rows: int, columns: int):
        self.model = model
        self.lengths = [0] * rows
        self._places = Places()
        layers = [CursorLayer(self._places, rows, columns) for _ in range(model.config.num_hidden_layers)]
        self._cache = Cache(layers=layers)

    @torch.inference_mode()
    def forward(self, wanted: dict[int, Forward]) -> dict[int, Tensor]:
        """Logits for each row that wants a forward, as `engine.Engine.forward` would give them.

        A layout of n positions counts the row's length as its past. Rows are padded to the longest; padding
        goes to a last column that nobody else sees.
        """
        rows = sorted(wanted)
        layouts = [wanted[row].layout for row in rows]
        longest = max(layout.ids.shape[1] for layout in layouts)
        dump = max(self.lengths[row] + layout.ids.shape[1] for row, layout in zip(rows, layouts))
        self._place(rows, layouts, longest, dump)
        device = self.model.device
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        positions = torch.zeros(len(rows), longest, dtype=torch.long)
        visible = torch.zeros(len(rows), longest, dump + 1, dtype=torch.bool)
        for index, layout in enumerate(layouts):
            count, seen = layout.visible.shape[1:]
            ids[index, :count], positions[index, :count] = layout.ids[0], layout.positions[0]
            visible[index, :count, :seen] = layout.visible[0]
            visible[index, count:, dump] = True
        hidden = self.model.base_model(
            input_ids=ids.to(device),
            position_ids=positions.to(device),
            attention_mask=visible[:, None].to(device),
            past_key_values=self._cache,
            use_cache=True,
        ).last_hidden_state
        read = [
            hidden[index, wanted[row].first : layout.ids.shape[1]]
            for index, (row, layout) in enumerate(zip(rows, layouts))
        ]
        logits = self.model.get_output_embeddings()(torch.cat(read)).float()
        return dict(zip(rows, logits.split([len(part) for part in read])))

    def _place(self, rows: list[int], layouts: list[Layout], longest: int, dump: int) -> None:
        columns = torch.full((len(rows), longest), dump)
        for index, (row, layout) in enumerate(zip(rows, layouts)):
            count = layout.ids.shape[1]
            columns[index, :count] = torch.arange(self.lengths[row], self.lengths[row] + count)
        self._places.rows = torch.tensor(rows, device=self.model.device)
        self._places.columns = columns.to(self.model.device)
        self._places.width = dump + 1

    def commit(self, row: int, count: int) -> None:
        """Keep the first `count` positions of the row's last forward."""
        self.lengths[row] += count

    def clear(self, row: int) -> None:
        self.lengths[row] = 0


class Row:
    """A strategy in a batch: what it wants computed next, with or without the block-level cache.

    With a `cache_block`, what was accepted since the last commit is computed again in every forward, in
    front of what the strategy wants, until it fills the block and the row waits (`full`). One more forward,
    `closing`, then puts it into the cache.
    """

    def __init__(self, strategy: Strategy, cache_block: int | None):
        self.strategy, self.cache_block = strategy, cache_block
        self.next: Forward = next(strategy)
        self.length = 0  # committed positions
        self.tail: list[int] = []  # accepted tokens behind them
        self.closing = False

    @property
    def full(self) -> bool:
        return self.cache_block is not None and len(self.tail) >= self.cache_block

    @property
    def wanted(self) -> Forward:
        tail = layouts.causal(self.tail, self.length)
        if self.closing:
            return Forward(tail, first=len(self.tail))
        if not self.tail:
            return self.next
        own, more = self.next.layout, len(self.tail)
        behind = torch.zeros(1, more, own.ids.shape[1], dtype=torch.bool)
        layout = Layout(
            ids=torch.cat([tail.ids, own.ids], dim=1),
            positions=torch.cat([tail.positions, own.positions], dim=1),
            visible=torch.cat([torch.cat([tail.visible, behind], dim=2), own.visible], dim=1),
        )
        return Forward(layout, self.next.first + more)

    def take(self, logits: Tensor) -> tuple[Pass | None, int]:
        """The pass that the logits make, and how many of the forward's positions stay in the cache."""
        if self.closing:
            keep, self.tail, self.closing = len(self.tail), [], False
            self.length += keep
            return None, keep
        outcome = self.strategy.send(logits)
        kept = self.next.layout.ids[0, : outcome.keep].tolist()
        if self.cache_block is not None and self.length:
            self.tail += kept
            keep = 0
        else:
            keep = outcome.keep
            self.length += keep
        if not outcome.step.stop:
            self.next = next(self.strategy)
        return outcome.step, keep


@dataclass
class Batch:
    """Prompts decoded together. Iterating runs the next forward and yields the runs that it moved on.

    `positions` counts what was computed, padding included.
    """

    runs: list[Run]
    schedule: Schedule
    positions: int = 0
    forwards: int = 0
    seconds: float = 0.0
    _steps: Iterator[list[int]] = field(default_factory=lambda: iter(()))

    def __iter__(self) -> Iterator[list[int]]:
        return self

    def __next__(self) -> list[int]:
        return next(self._steps)

    def finish(self) -> Batch:
        for _ in self:
            pass
        return self


def decode_batch(
    checkpoint: Checkpoint,
    prompts: Sequence[str],
    *,
    size: int = 8,
    cache_block: int | None = None,
    continuous: bool = True,
    **settings,
) -> Batch:
    """Every prompt decoded with the settings of `decoding.decode`, at most `size` at a time.

    cache_block: positions of the paper's block-level cache; None for the cursor cache.
    continuous: whether a waiting prompt takes a finished row's place at once, or when all have finished.

    Raises:
        ValueError: if there is no prompt, `size` or `cache_block` is below 1, or a setting is out of its
            range. A prompt that is too long is named with its number.
    """
    if not prompts:
        raise ValueError("The batch is empty; give at least one prompt.")
    if size < 1:
        raise ValueError(f"The batch size must be at least 1, not {size}.")
    if cache_block is not None and cache_block < 1:
        raise ValueError(f"The cache block must have at least 1 position, not {cache_block}.")
    prepared: list[tuple[Settings, Strategy]] = []
    for number, prompt in enumerate(prompts, start=1):
        try:
            prepared.append(prepare(checkpoint, prompt, **settings))
        except ValueError as error:
            raise ValueError(f"Prompt {number}: {error}") from error
    title = "Cursor cache" if cache_block is None else f"Block cache, {cache_block} positions"
    batch = Batch([Run(described) for described, _ in prepared], Schedule(title, list(prompts)))
    strategies = [strategy for _, strategy in prepared]
    batch._steps = _steps(checkpoint, batch, strategies, min(size, len(prompts)), cache_block, continuous)
    return batch


def _steps(
    checkpoint: Checkpoint,
    batch: Batch,
    strategies: list[Strategy],
    size: int,
    cache_block: int | None,
    continuous: bool,
) -> Iterator[list[int]]:
    longest = max(run.settings.prompt_tokens + run.settings.max_new_tokens for run in batch.runs)
    slots = max(run.settings.window for run in batch.runs) ** 2 + (cache_block or 0)
    cache = CursorCache(checkpoint.model, size, min(longest, checkpoint.context) + slots + 1)
    waiting = list(range(len(strategies)))
    places: list[int | None] = [None] * size
    blocks: dict[int, Row] = {}
    while waiting or any(place is not None for place in places):
        if continuous or all(place is None for place in places):
            for row in range(size):
                if places[row] is None and waiting:
                    places[row] = waiting.pop(0)
                    cache.clear(row)
                    blocks[row] = Row(strategies[places[row]], cache_block)
        active = {row: blocks[row] for row in range(size) if places[row] is not None}
        computing = {row: block for row, block in active.items() if not block.full}
        committing = not computing
        if committing:  # everybody's block is full: one forward puts it into the cache
            computing = active
            for block in active.values():
                block.closing = True
        started = time.perf_counter()
        wanted = {row: block.wanted for row, block in computing.items()}
        logits = cache.forward(wanted)
        elapsed = time.perf_counter() - started
        moved = []
        states = dict.fromkeys(range(len(strategies)), FREE)
        for row in active:
            states[places[row]] = WAIT if row not in computing else COMMIT if committing else COMPUTE
        for row, block in computing.items():
            step, keep = block.take(logits[row])
            cache.commit(row, keep)
            if step is not None:
                run = batch.runs[places[row]]
                run.add(step)
                moved.append(places[row])
                if run.stop:
                    places[row] = None
        batch.forwards += 1
        batch.seconds += elapsed
        batch.positions += len(wanted) * max(f.layout.ids.shape[1] for f in wanted.values())
        batch.schedule.steps.append([states[index] for index in range(len(strategies))])
        yield moved
