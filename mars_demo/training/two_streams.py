"""The two streams of training: clean and noisy tokens of each sequence in one forward (section 3.2)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from mars_demo.layout import NO_GROUP, Layout, Role

CLEAN = -1  # the block start of a position that belongs to no block


@dataclass(frozen=True)
class Streams:
    """The clean stream of each sequence, followed by its noisy stream: `[x ; x̃]`.

    ids, positions, roles, groups: [rows, n], as in a `Layout`.
    spans: [rows, n, 2, 2] two half-open ranges of columns that a position sees. Padding sees only itself,
        which keeps its softmax finite.
    clean_length: the length of the clean stream, which comes first.
    """

    ids: Tensor
    positions: Tensor
    roles: Tensor
    groups: Tensor
    spans: Tensor
    clean_length: int

    @property
    def real(self) -> Tensor:
        """The [rows, n] positions that are not padding."""
        return self.roles != Role.PADDING

    @property
    def clean(self) -> Self:
        return self._each(lambda values: values[:, : self.clean_length])

    def rows(self, chosen: Tensor) -> Self:
        """Return the streams of some sequences; `chosen` is a [rows] mask."""
        return self._each(lambda values: values[chosen])

    def to(self, device: torch.device) -> Self:
        return self._each(lambda values: to_device(values, device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        tensors = (self.ids, self.positions, self.roles, self.groups, self.spans)
        return Streams(*map(change, tensors), self.clean_length)

    def layout(self) -> Layout:
        """Return the layout with its [rows, n, n] mask."""
        visible = in_spans(self.spans, self.ids.shape[1])
        return Layout(self.ids, self.positions, visible, self.roles, self.groups)

    def packed(self) -> tuple[Layout, Tensor]:
        """Return the sequences packed into one, without padding.

        The layout has no mask; the [n, 2, 2] spans say which positions see which.
        """
        real = self.real
        rows, columns = real.shape
        place = torch.cat([real.new_zeros(1, dtype=torch.long), real.flatten().cumsum(0)])
        row = torch.arange(rows, device=real.device)[:, None, None]
        spans = place[columns * row[real.nonzero(as_tuple=True)[0]] + self.spans[real]]
        ids, positions, roles, groups = (
            values[real][None] for values in (self.ids, self.positions, self.roles, self.groups)
        )
        return Layout(ids, positions, torch.zeros(1, 0, 0, dtype=torch.bool), roles, groups), spans


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Return the values on `device`; the host does not wait for a GPU."""
    return values.to(device, non_blocking=device.type == "cuda")


def in_spans(spans: Tensor, columns: int) -> Tensor:
    """Return the […, columns] mask of the columns in either range of […, 2, 2] `spans`."""
    keys = torch.arange(columns, device=spans.device)
    begin, end = spans[..., None].unbind(-2)
    return ((begin <= keys) & (keys < end)).any(-2)


def block_starts(response: Sequence[bool], block_size: int, phases: Sequence[int]) -> list[int]:
    """Return the start of each position's block, the position of its first mask; `CLEAN` outside blocks.

    Blocks are counted from the first position of each response, so that no block reaches into a prompt.
    A phase p in 0 … block_size-1, one per response, shortens that response's first block by p: a sliding
    window can start anywhere, and so should training blocks.
    """
    starts, origin, phase, remaining = [], CLEAN, 0, iter(phases)
    for position, inside in enumerate(response):
        if not inside:
            origin = CLEAN
        elif origin == CLEAN:
            origin, phase = position, next(remaining)
        if origin == CLEAN:
            starts.append(CLEAN)
        else:
            block = (position - origin + phase) // block_size
            starts.append(max(origin, origin + block * block_size - phase))
    return starts


def two_streams(
    clean: Tensor,
    lengths: Tensor,
    noisy: Tensor,
    noisy_positions: Tensor,
    starts: Tensor,
    clean_starts: Tensor | None = None,
) -> Streams:
    """Return a batch of clean streams, each followed by its noisy stream (section 3.2).

    clean: [rows, L] token ids, padded on the right; lengths: [rows] lengths without padding.
    noisy: [rows, N] token ids, most of them masks; noisy_positions: [rows, N] their positions; starts:
        [rows, N] the first position of each one's block, or `CLEAN` for padding.
    clean_starts: [rows, L] the block start of each clean token, or `CLEAN`, for block diffusion: within a
        block every position sees every other, in both streams. None for MARS.

    Clean positions see clean ones causally. Noisy positions see the clean tokens before their block and,
    causally, the noisy ones of their block. With N = 0 this is the causal batch of AR training.
    """
    rows, length = clean.shape
    text = torch.arange(length).expand(rows, length)
    start = torch.cat([torch.full_like(text, CLEAN), starts], dim=1)
    real = torch.cat([text < lengths[:, None], starts != CLEAN], dim=1)
    columns = torch.arange(start.shape[1]).expand_as(start)
    first, last = torch.zeros_like(start), columns + 1
    first[:, length:], end = (length + edge for edge in _edges(starts))
    if clean_starts is not None:
        last[:, length:] = end
        last[:, :length] = torch.where(clean_starts == CLEAN, text + 1, _edges(clean_starts)[1])
    is_noisy = start != CLEAN
    nothing = torch.zeros_like(start)
    spans = torch.stack(
        [nothing, torch.where(is_noisy, start, nothing), torch.where(is_noisy, first, nothing), last],
        dim=-1,
    )
    itself = torch.stack([nothing, nothing, columns, columns + 1], dim=-1)
    return Streams(
        ids=torch.cat([clean, noisy], dim=1),
        positions=torch.cat([text, noisy_positions], dim=1),
        roles=torch.where(real, torch.where(is_noisy, Role.NOISY, Role.CLEAN), Role.PADDING),
        groups=_block_numbers(start),
        spans=torch.where(real[..., None], spans, itself).unflatten(-1, (2, 2)),
        clean_length=length,
    )


def _edges(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return the [rows, n] first and end columns of each column's block, a run of equal numbers."""
    count = blocks.shape[1]
    columns = torch.arange(count).expand_as(blocks)
    changes = (blocks[:, 1:] != blocks[:, :-1]).long()
    ones = changes.new_ones(len(blocks), min(count, 1))
    first = (torch.cat([ones, changes], dim=1) * columns).cummax(1).values
    ends = torch.where(torch.cat([changes, ones], dim=1) > 0, columns + 1, count)
    return first, ends.flip(1).cummin(1).values.flip(1)


def _block_numbers(starts: Tensor) -> Tensor:
    """Return the [rows, n] number of each position's block in its sequence; NO_GROUP if clean."""
    first = torch.zeros_like(starts, dtype=torch.bool)
    first[:, 1:] = (starts[:, 1:] != starts[:, :-1]) & (starts[:, 1:] != CLEAN)
    first[:, 0] = starts[:, 0] != CLEAN
    return torch.where(starts == CLEAN, NO_GROUP, first.cumsum(dim=1) - 1)
