"""Many prompts at once: every row decodes as it would alone, and shares its forwards with the others.

Rows are the strategies of `decoding`; what differs is whose turn it is. With the cursor cache each row has
its own length, so nobody waits, and a finished row's place goes to the next prompt. With the block cache of
the paper, rows that have filled a block wait until all have. Without a cache every forward computes the
whole text again.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import CacheLayerMixin

from mars_demo import layout as layouts
from mars_demo.checkpoints import Checkpoint
from mars_demo.decoding import Forward, Reading, Strategy, prepare, read
from mars_demo.layout import Layout
from mars_demo.sampling import Sampling
from mars_demo.schedules import COMMIT, COMPUTE, FREE, WAIT, Schedule
from mars_demo.trace import Pass, Run, Settings

CACHES = ("cursor", "block", "none")
CACHE_BLOCK = 32  # positions, the paper's best together with 16
PADDING = 64  # positions of padding on a CPU that cost more than a forward of their own


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
    def forward(self, wanted: dict[int, Forward]) -> Tensor:
        """Logits of what `engine.Engine.forward` would give for each row that wants a forward, in the order
        of the rows, one behind the other.

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
        return self.model.get_output_embeddings()(torch.cat(read)).float()

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
    """A strategy in a batch: what it wants computed next, with whatever cache.

    What the cache does not hold yet is computed again in every forward, in front of what the strategy
    wants. With the block cache that is what was accepted since the last commit, until it fills the block
    and the row waits (`full`) for one more forward, `closing`, that puts it into the cache; without a cache
    it is all.
    """

    def __init__(
        self,
        run: Run,
        strategy: Strategy,
        cache: str = "cursor",
        cache_block: int = CACHE_BLOCK,
        sampling: Sampling | None = None,
    ):
        self.run, self.strategy, self.sampling = run, strategy, sampling
        self.cache, self.cache_block = cache, cache_block
        self.next: Forward | None = None
        self.length = 0  # committed positions
        self.tail: list[int] = []  # tokens behind them that are there to stay
        self.closing = False
        self.state = FREE

    @property
    def full(self) -> bool:
        return self.cache == "block" and len(self.tail) >= self.cache_block

    def wanted(self) -> Forward:
        """What it wants computed now; only here it reads τ, however long it has waited."""
        if self.closing:
            return Forward(layouts.causal(self.tail, self.length), first=len(self.tail))
        if not self.next:
            self.next = next(self.strategy)
        if not self.tail:
            return self.next
        tail = layouts.causal(self.tail, self.length)
        own, more = self.next.layout, len(self.tail)
        behind = torch.zeros(1, more, own.ids.shape[1], dtype=torch.bool)
        layout = Layout(
            ids=torch.cat([tail.ids, own.ids], dim=1),
            positions=torch.cat([tail.positions, own.positions], dim=1),
            visible=torch.cat([torch.cat([tail.visible, behind], dim=2), own.visible], dim=1),
        )
        return Forward(layout, self.next.first + more)

    def take(self, readings: list[Reading]) -> tuple[Pass | None, int]:
        """The pass that the readings make, and how many of the forward's positions stay in the cache."""
        if self.closing:
            keep, self.tail, self.closing = len(self.tail), [], False
            self.length += keep
            self.run.commits += 1
            return None, keep
        outcome = self.strategy.send(readings)
        is_prompt = not self.length and not self.tail
        if self.cache == "none" or (self.cache == "block" and not is_prompt):
            self.tail += self.next.layout.ids[0, : outcome.keep].tolist()
            keep = 0
        else:
            keep = outcome.keep
            self.length += keep
        self.run.add(outcome.step)
        self.next = None
        return outcome.step, keep


class Batch:
    """Places for rows on one model. Rows are admitted where there is room; each step is one forward for
    all whose turn it is; who has finished leaves.

    `positions` counts what was computed, padding included; `seconds` is the time of the forwards.

    Raises:
        ValueError: if the cache of so many rows does not fit into the memory that is free.
    """

    def __init__(self, checkpoint: Checkpoint, size: int, columns: int):
        _check_memory(checkpoint.model, size, columns)
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
        place = self.rows.index(None)
        self.rows[place] = row
        self._cache.clear(place)

    def drop(self, row: Row) -> None:
        """Give a row's place back before it has finished."""
        self.rows[self.rows.index(row)] = None

    def _chosen(self, wanted: dict[int, Forward]) -> dict[int, Forward]:
        """Whose turn it is. A prompt is long and everybody else would be padded to it, so where that costs
        more than it saves, new rows compute first."""
        new = {place: f for place, f in wanted.items() if not self.rows[place].run.passes}
        others = [f for place, f in wanted.items() if place not in new]
        apart = _padded(new.values()) + _padded(others)
        free = self._cache.model.device.type != "cpu"  # to a GPU's memory bandwidth positions are nothing
        return wanted if free or not new or _padded(wanted.values()) - apart <= PADDING else new

    def step(self) -> list[tuple[Row, Pass]]:
        """The next forward: the rows that it moved on, each with its pass."""
        active = {place: row for place, row in enumerate(self.rows) if row is not None}
        computing = {place: row for place, row in active.items() if not row.full}
        state = COMPUTE
        for row in active.values():
            row.state = WAIT
        if not computing:  # everybody's block is full: one forward puts it into the cache
            computing, state = active, COMMIT
            for row in active.values():
                row.closing = True
        started = time.perf_counter()
        wanted = self._chosen({place: row.wanted() for place, row in computing.items()})
        computing = {place: computing[place] for place in wanted}
        readings = _read_all(self._cache.forward(wanted), wanted, computing)
        self.seconds += time.perf_counter() - started
        self.forwards += 1
        self.positions += _padded(wanted.values())
        moved = []
        for place, row in computing.items():
            row.state = state
            step, keep = row.take(readings[place])
            self._cache.commit(place, keep)
            if step is not None:
                moved.append((row, step))
                if step.stop:
                    self.rows[place] = None
        return moved


def _padded(forwards: Collection[Forward]) -> int:
    """The positions of one forward for all, padding included."""
    return len(forwards) * max((f.layout.ids.shape[1] for f in forwards), default=0)


def _read_all(logits: Tensor, wanted: dict[int, Forward], rows: dict[int, Row]) -> dict[int, list[Reading]]:
    """The readings of each row: all rows together, unless one draws its tokens."""
    counts = [f.layout.ids.shape[1] - f.first for f in wanted.values()]
    if any(row.sampling for row in rows.values()):
        parts = zip(wanted.items(), logits.split(counts))
        return {place: read(part, f.positions, rows[place].sampling) for (place, f), part in parts}
    readings = iter(read(logits))
    return {place: list(itertools.islice(readings, count)) for place, count in zip(wanted, counts)}


def _check_memory(model: PreTrainedModel, rows: int, columns: int) -> None:
    config = model.config
    heads = config.num_key_value_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    a_row = 2 * config.num_hidden_layers * heads * size * columns * model.dtype.itemsize
    if model.device.type == "cuda":
        free = torch.cuda.mem_get_info(model.device)[0]
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if rows * a_row > free:
        raise ValueError(
            f"The cache of {rows} rows needs {rows * a_row / 2**30:.1f} GiB of memory and "
            f"{free / 2**30:.1f} GiB are free: allowed are up to {free // a_row} rows."
        )


@dataclass
class Decoding:
    """Prompts decoded together. Iterating runs the next forward and yields the numbers of the runs that it
    moved on."""

    runs: list[Run]
    schedule: Schedule
    batch: Batch
    _steps: Iterator[list[int]] = field(default_factory=lambda: iter(()))

    def __iter__(self) -> Iterator[list[int]]:
        return self

    def __next__(self) -> list[int]:
        return next(self._steps)

    def finish(self) -> Decoding:
        for _ in self:
            pass
        return self


def decode_batch(
    checkpoint: Checkpoint,
    prompts: Sequence[str],
    *,
    size: int = 8,
    cache: str = "cursor",
    cache_block: int = CACHE_BLOCK,
    continuous: bool = True,
    **settings,
) -> Decoding:
    """Every prompt decoded with the settings of `decoding.decode`, at most `size` at a time.

    cache: `cursor`, a length per row; `block`, the paper's block-level cache of `cache_block` positions;
        `none`, every forward computes the whole text.
    continuous: whether a waiting prompt takes a finished row's place at once, or when all have finished.

    Raises:
        ValueError: if there is no prompt, `size` or `cache_block` is below 1, the cache does not fit into
            memory, or a setting is out of its range. A prompt that is too long is named with its number.
    """
    if not prompts:
        raise ValueError("The batch is empty; give at least one prompt.")
    if size < 1:
        raise ValueError(f"The batch size must be at least 1, not {size}.")
    if cache not in CACHES:
        raise ValueError(f"No cache called {cache!r}: allowed are {', '.join(CACHES)}.")
    if cache != "cursor" and settings.get("mode") == "block-diffusion":
        raise ValueError(
            "Block diffusion sees a finished block from both sides and cannot compute it again behind "
            "others: allowed is the cursor cache."
        )
    if cache_block < 1:
        raise ValueError(f"The cache block must have at least 1 position, not {cache_block}.")
    size = min(size, len(prompts))
    if settings.get("mode") == "lossless" and settings.get("window") is None:
        settings["window"] = lossless_window(checkpoint, size)
    prepared: list[tuple[Settings, Strategy]] = []
    for number, prompt in enumerate(prompts, start=1):
        try:
            prepared.append(prepare(checkpoint, prompt, **settings))
        except ValueError as error:
            raise ValueError(f"Prompt {number}: {error}") from error
    longest = max(described.prompt_tokens + described.max_new_tokens for described, _ in prepared)
    more = cache_block if cache == "block" else 0
    batch = Batch(checkpoint, size, columns(checkpoint, longest, prepared[0][0].window) + more)
    titles = {
        "cursor": "Cursor cache",
        "block": f"Block cache, {cache_block} positions",
        "none": "No cache",
    }
    rows = [
        Row(Run(described), strategy, cache, cache_block, settings.get("sampling"))
        for described, strategy in prepared
    ]
    decoding = Decoding([row.run for row in rows], Schedule(titles[cache], list(prompts)), batch)
    decoding._steps = _steps(decoding, rows, continuous)
    return decoding


def columns(checkpoint: Checkpoint, longest: int, window: int) -> int:
    """What a row of the cache must hold: a text, what any forward adds for a while, and the padding."""
    return min(longest, checkpoint.context) + window**2 + 2 * window + 1


# Rows of a batch and the drafts that are worth their positions in it, measured by `benchmarks.batches` on a
# CPU: a larger batch has fewer positions to spare.
LOSSLESS_DRAFTS = {4: 8, 1024: 4}


def lossless_window(checkpoint: Checkpoint, size: int) -> int:
    """The window of `lossless` in a batch of `size` rows."""
    drafts = next((drafts for up_to, drafts in LOSSLESS_DRAFTS.items() if size <= up_to), 2)
    return min(drafts + 1, checkpoint.largest_window)


def _steps(decoding: Decoding, rows: list[Row], continuous: bool) -> Iterator[list[int]]:
    batch, waiting = decoding.batch, list(rows)
    number = {id(row): index for index, row in enumerate(rows)}
    while waiting or batch.active:
        if continuous or not batch.active:
            while waiting and batch.room:
                batch.admit(waiting.pop(0))
        active, before = batch.active, batch.seconds
        moved = batch.step()
        states = [FREE] * len(rows)
        for row in active:
            states[number[id(row)]] = row.state
        decoding.schedule.steps.append(states)
        decoding.schedule.ms.append(round(1000 * (batch.seconds - before), 3))
        yield [number[id(row)] for row, _ in moved]
