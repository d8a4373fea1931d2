"""The per-sequence (ragged) KV cache: sequences of different lengths that share one forward."""

from collections.abc import Collection

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import CacheLayerMixin

from mars_demo.core.layout import Layout, size_on, together
from mars_demo.decoding.strategy import Forward
from mars_demo.models.runtime.decoder import logits_of, masks, run

FIRST_ROOM = 64  # columns


class Places:
    """The cache rows and columns that the next forward reads and writes.

    Each new position has a column; columns from `width` on are not read.
    """

    rows: Tensor
    chosen: Tensor | slice  # the same rows; adjacent ones are a slice, which is read without a copy
    columns: Tensor
    width: int


class RaggedLayer(CacheLayerMixin):
    """Keys and values of one layer, [rows, heads, capacity, size], written at `places`.

    The capacity doubles when a sequence outgrows it, up to `columns`.
    """

    is_sliding = False

    def __init__(self, places: Places, rows: int, columns: int):
        super().__init__()
        self.places, self.shape = places, (rows, columns)

    def lazy_initialization(self, keys: Tensor, values: Tensor) -> None:
        rows, _ = self.shape
        self.keys = keys.new_empty(rows, keys.shape[1], 0, keys.shape[3])
        self.values = values.new_empty(rows, values.shape[1], 0, values.shape[3])
        self.is_initialized = True

    def _grow(self, width: int) -> None:
        _, columns = self.shape
        more = min(columns, max(width, 2 * self.keys.shape[2], FIRST_ROOM)) - self.keys.shape[2]
        self.keys, self.values = (pad(tensor, (0, 0, 0, more)) for tensor in (self.keys, self.values))

    def update(self, keys: Tensor, values: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        places = self.places
        if places.width > self.keys.shape[2]:
            self._grow(places.width)
        at = (places.rows[:, None], slice(None), places.columns)
        # Indexing with a tensor on both sides of a slice puts the indexed dimensions first.
        self.keys[at] = keys.transpose(1, 2)
        self.values[at] = values.transpose(1, 2)
        chosen = places.chosen
        return self.keys[chosen, :, : places.width], self.values[chosen, :, : places.width]

    def move(self, source: int, target: int, length: int) -> None:
        for tensor in (self.keys, self.values):
            tensor[target, :, :length] = tensor[source, :, :length]

    def get_seq_length(self) -> int:
        return 0  # sequences differ in length; layouts carry their own positions and masks

    def get_max_length(self) -> int:
        return self.shape[1]

    def get_mask_sizes(self, *args, **kwargs) -> tuple[int, int]:
        return self.places.width, 0


class RaggedCache:
    """A KV cache on one model, with a length per sequence.

    Sequences are stored in adjacent rows, so that a forward over all of them reads the cache without a
    copy; another sequence moves into a row that was cleared.
    """

    def __init__(self, model: PreTrainedModel, rows: int, columns: int):
        self.model, self._columns = model, columns
        self.lengths = [0] * rows
        self._stored = list(range(rows))  # the cache row of each batch slot
        self._places = Places()
        layers = [RaggedLayer(self._places, rows, columns) for _ in range(model.config.num_hidden_layers)]
        self._cache = Cache(layers=layers)

    @torch.inference_mode()
    def forward(self, forwards: dict[int, Forward]) -> Tensor:
        """Return the logits of these forwards, concatenated in the order of their batch slots.

        Each sequence gets the logits that `engine.Engine.forward` would give it; its layout counts its
        length as the past. Layouts are padded to the longest; padding is stored in a column that no other
        position sees.
        """
        self._arrange(forwards)
        rows = sorted(forwards, key=self._stored.__getitem__)
        layouts = [forwards[row].layout for row in rows]
        count = size_on(self.model.device, max(layout.ids.shape[1] for layout in layouts))
        dump = max(self.lengths[row] + layout.ids.shape[1] for row, layout in zip(rows, layouts))
        width = min(size_on(self.model.device, dump + 1), self._columns)
        self._place(rows, layouts, count, dump, width)
        layout = together(layouts, count, width, dump).to(self.model.device)
        near = lambda window: together([one.near(window) for one in layouts], count, width, dump)  # noqa: E731
        mask = masks(self.model, layout, near)
        hidden = run(self.model, layout, self._cache, mask).last_hidden_state
        read = {
            row: hidden[index, forwards[row].first : layout.ids.shape[1]]
            for index, (row, layout) in enumerate(zip(rows, layouts))
        }
        return logits_of(self.model, torch.cat([read[row] for row in sorted(read)]))

    def _arrange(self, active: Collection[int]) -> None:
        """Move the stored sequences to the first cache rows, and give new ones the rows after them."""
        texts = [row for row, length in enumerate(self.lengths) if length]
        empty = sorted(set(range(len(self.lengths))).difference(texts), key=lambda row: row not in active)
        free = sorted(self._stored[row] for row in empty)
        beyond = [row for row in texts if self._stored[row] >= len(texts)]
        for row, place in zip(beyond, list(free)):
            for layer in self._cache.layers:
                layer.move(self._stored[row], place, self.lengths[row])
            free[free.index(place)], self._stored[row] = self._stored[row], place
        for row, place in zip(empty, sorted(free)):
            self._stored[row] = place

    def _place(self, rows: list[int], layouts: list[Layout], count: int, dump: int, width: int) -> None:
        columns = torch.full((len(rows), count), dump)
        for index, (row, layout) in enumerate(zip(rows, layouts)):
            own = layout.ids.shape[1]
            columns[index, :own] = torch.arange(self.lengths[row], self.lengths[row] + own)
        device = self.model.device
        stored = [self._stored[row] for row in rows]
        self._places.rows = torch.tensor(stored).to(device, non_blocking=device.type == "cuda")
        adjacent = stored[-1] - stored[0] == len(stored) - 1
        self._places.chosen = slice(stored[0], stored[-1] + 1) if adjacent else self._places.rows
        self._places.columns = columns.to(device, non_blocking=device.type == "cuda")
        self._places.width = width

    def commit(self, row: int, count: int) -> None:
        self.lengths[row] += count

    def clear(self, row: int) -> None:
        self.lengths[row] = 0
