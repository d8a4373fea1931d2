"""The per-sequence (ragged) KV cache: sequences of different lengths that share one forward."""

from collections.abc import Collection, Hashable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import CacheLayerMixin

from mars_demo.core.layout import together
from mars_demo.decoding.reading import Forward
from mars_demo.models.runtime.decoder import logits_of, masks, run_layout

FIRST_ROOM = 64  # columns


class Places:
    """The cache rows and columns that the next forward reads and writes.

    Each new position has a column; columns from `width` on are not read.
    """

    def set(self, rows: Sequence[int], columns: Tensor, width: int, device: torch.device) -> None:
        self.rows = torch.tensor(rows).to(device, non_blocking=device.type == "cuda")
        self.columns = columns.to(device, non_blocking=device.type == "cuda")
        self.width = width
        # Adjacent rows are a slice, which is read without a copy.
        adjacent = rows[-1] - rows[0] == len(rows) - 1
        self.read = slice(rows[0], rows[-1] + 1) if adjacent else self.rows


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
        return self.keys[places.read, :, : places.width], self.values[places.read, :, : places.width]

    def move(self, source: int, target: int) -> None:
        for tensor in (self.keys, self.values):
            tensor[target] = tensor[source]

    def get_seq_length(self) -> int:
        return 0  # sequences differ in length; layouts carry their own positions and masks

    def get_max_length(self) -> int:
        return self.shape[1]

    def get_mask_sizes(self, *args, **kwargs) -> tuple[int, int]:
        return self.places.width, 0


class RaggedCache:
    """A KV cache on one model for sequences of any length; any hashable stands for a sequence.

    Sequences are stored in adjacent rows, so that a forward over all of them reads the cache without a
    copy; the row of a sequence that was cleared is taken by another one.
    """

    def __init__(self, model: PreTrainedModel, rows: int, columns: int):
        self.model = model
        self._rows: dict[Hashable, int] = {}
        self._places = Places()
        layers = [RaggedLayer(self._places, rows, columns) for _ in range(model.config.num_hidden_layers)]
        self._cache = Cache(layers=layers)

    @torch.inference_mode()
    def forward(self, forwards: dict[Hashable, Forward]) -> Tensor:
        """Return the logits of these forwards, concatenated in their order.

        Each sequence gets the logits that `engine.Engine.forward` would give it; its layout has its cached
        positions as the past, and later ones are overwritten. Padding is stored in the last column, which
        no other position sees.
        """
        self._arrange(forwards)
        sequences = sorted(forwards, key=self._rows.__getitem__)
        layouts = [forwards[sequence].layout for sequence in sequences]
        sizes, ends = zip(*(layout.visible.shape[1:] for layout in layouts))
        layout = together(layouts).to(self.model.device)
        count, width = layout.visible.shape[1:]
        columns = torch.full((len(sequences), count), width - 1)
        for row, (size, end) in enumerate(zip(sizes, ends)):
            columns[row, :size] = torch.arange(end - size, end)
        rows = [self._rows[sequence] for sequence in sequences]
        self._places.set(rows, columns, width, self.model.device)
        mask = masks(self.model, layout, lambda window: together([text.near(window) for text in layouts]))
        hidden = run_layout(self.model, layout, self._cache, mask).last_hidden_state
        read = {
            sequence: hidden[row, forwards[sequence].first : size]
            for row, (sequence, size) in enumerate(zip(sequences, sizes))
        }
        return logits_of(self.model, torch.cat([read[sequence] for sequence in forwards]))

    def _arrange(self, forwards: Collection[Hashable]) -> None:
        """Move stored sequences into rows that have become free, and give new ones the rows after them."""
        free = set(range(len(self._rows))).difference(self._rows.values())
        for sequence, row in self._rows.items():
            if row >= len(self._rows):
                self._rows[sequence] = free.pop()
                for layer in self._cache.layers:
                    layer.move(row, self._rows[sequence])
        for sequence in forwards:
            self._rows.setdefault(sequence, len(self._rows))

    def clear(self, sequence: Hashable) -> None:
        self._rows.pop(sequence, None)
