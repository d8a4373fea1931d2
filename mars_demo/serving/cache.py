"""The cursor cache: keys and values of many texts, each with its own length, and one forward for all."""

from collections.abc import Collection, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import CacheLayerMixin

from mars_demo.decoding.engine import hidden_states
from mars_demo.decoding.layout import NO_GROUP, Layout, Role
from mars_demo.decoding.strategy import Forward
from mars_demo.models.logits import logits_of

FIRST_ROOM = 64  # columns


class Places:
    """Where the next forward is stored: the rows of the cache that take part, and a column for each of
    their new positions. Columns from `width` on are not read."""

    rows: Tensor
    chosen: Tensor | slice  # the same rows; a slice of rows next to each other is read without a copy
    columns: Tensor
    width: int


class CursorLayer(CacheLayerMixin):
    """Keys and values of one layer, [rows, heads, room, size], written wherever `places` says. The room
    doubles when a text needs more, up to `columns`."""

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
        self.keys, self.values = (pad(held, (0, 0, 0, more)) for held in (self.keys, self.values))

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
        for held in (self.keys, self.values):
            held[target, :, :length] = held[source, :, :length]

    def get_seq_length(self) -> int:
        return 0  # rows have different lengths; layouts carry their own positions and masks

    def get_max_length(self) -> int:
        return self.shape[1]

    def get_mask_sizes(self, *args, **kwargs) -> tuple[int, int]:
        return self.places.width, 0


class CursorCache:
    """A KV cache of many texts, each with its own length, on one model.

    Texts are stored next to each other, so that a forward of all of them reads the cache without a copy:
    where one has been cleared, another one is moved to.
    """

    def __init__(self, model: PreTrainedModel, rows: int, columns: int):
        self.model = model
        self.lengths = [0] * rows
        self._stored = list(range(rows))  # where the keys and values of each row are
        self._places = Places()
        layers = [CursorLayer(self._places, rows, columns) for _ in range(model.config.num_hidden_layers)]
        self._cache = Cache(layers=layers)

    @torch.inference_mode()
    def forward(self, wanted: dict[int, Forward]) -> Tensor:
        """Return what `engine.Engine.forward` would give for each row that wants a forward, one after the
        other in the order of the rows.

        A layout counts the row's length as its past. Rows are padded to the longest; padding is stored in a
        last column that no other position sees.
        """
        self._arrange(wanted)
        rows = sorted(wanted, key=self._stored.__getitem__)
        layouts = [wanted[row].layout for row in rows]
        longest = max(layout.ids.shape[1] for layout in layouts)
        dump = max(self.lengths[row] + layout.ids.shape[1] for row, layout in zip(rows, layouts))
        self._place(rows, layouts, longest, dump)
        hidden = hidden_states(self.model, _padded(layouts, longest, dump), self._cache)
        read = {
            row: hidden[index, wanted[row].first : layout.ids.shape[1]]
            for index, (row, layout) in enumerate(zip(rows, layouts))
        }
        return logits_of(self.model, torch.cat([read[row] for row in sorted(read)]))

    def _arrange(self, wanted: Collection[int]) -> None:
        """Store the texts next to each other from place 0 on, and after them the rows that begin one."""
        texts = [row for row, length in enumerate(self.lengths) if length]
        empty = sorted(set(range(len(self.lengths))).difference(texts), key=lambda row: row not in wanted)
        free = sorted(self._stored[row] for row in empty)
        beyond = [row for row in texts if self._stored[row] >= len(texts)]
        for row, place in zip(beyond, list(free)):
            for layer in self._cache.layers:
                layer.move(self._stored[row], place, self.lengths[row])
            free[free.index(place)], self._stored[row] = self._stored[row], place
        for row, place in zip(empty, sorted(free)):
            self._stored[row] = place

    def _place(self, rows: list[int], layouts: list[Layout], longest: int, dump: int) -> None:
        columns = torch.full((len(rows), longest), dump)
        for index, (row, layout) in enumerate(zip(rows, layouts)):
            count = layout.ids.shape[1]
            columns[index, :count] = torch.arange(self.lengths[row], self.lengths[row] + count)
        device = self.model.device
        stored = [self._stored[row] for row in rows]
        self._places.rows = torch.tensor(stored).to(device, non_blocking=device.type == "cuda")
        together = stored[-1] - stored[0] == len(stored) - 1
        self._places.chosen = slice(stored[0], stored[-1] + 1) if together else self._places.rows
        self._places.columns = columns.to(device, non_blocking=device.type == "cuda")
        self._places.width = dump + 1

    def commit(self, row: int, count: int) -> None:
        self.lengths[row] += count

    def clear(self, row: int) -> None:
        self.lengths[row] = 0


def _padded(layouts: Sequence[Layout], longest: int, dump: int) -> Layout:
    """Join layouts of one row each into one of many rows; padding sees column `dump` alone."""
    rows = len(layouts)
    padded = Layout(
        ids=torch.zeros(rows, longest, dtype=torch.long),
        positions=torch.zeros(rows, longest, dtype=torch.long),
        visible=torch.zeros(rows, longest, dump + 1, dtype=torch.bool),
        roles=torch.full((rows, longest), Role.PADDING),
        groups=torch.full((rows, longest), NO_GROUP),
    )
    for index, layout in enumerate(layouts):
        count, seen = layout.visible.shape[1:]
        for name in ("ids", "positions", "roles", "groups"):
            getattr(padded, name)[index, :count] = getattr(layout, name)[0]
        padded.visible[index, :count, :seen] = layout.visible[0]
        padded.visible[index, count:, dump] = True
    return padded
