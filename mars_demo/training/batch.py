"""Training batches: the two streams of many conversations, in rows of equal length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from mars_demo.core.layout import NO_GROUP, Layout, Role
from mars_demo.training.two_streams import IGNORE, OTHER, OWN, POSITION, TwoStreams


class Positions(NamedTuple):
    """The positions of one or more conversations in each of several rows.

    ids, positions, roles, groups: [rows, n], as in a `Layout`.
    spans: [rows, n, 2, 2] two half-open ranges of columns that a position sees. No position sees another
        conversation, and padding sees only itself, which keeps its softmax finite.
    """

    ids: Tensor
    positions: Tensor
    roles: Tensor
    groups: Tensor
    spans: Tensor

    @property
    def real(self) -> Tensor:
        """The [rows, n] positions that are not padding."""
        return self.roles != Role.PADDING

    def to(self, device: torch.device) -> Self:
        return Positions(*(to_device(values, device) for values in self))

    def layout(self) -> Layout:
        """Return the layout with its [rows, n, n] mask."""
        visible = in_spans(self.spans, self.ids.shape[1])
        return Layout(self.ids, self.positions, visible, self.roles, self.groups)

    def in_one_row(self) -> tuple[Layout, Tensor]:
        """Return all rows one after another; the layout has no mask, but [rows · n, 2, 2] spans."""
        rows, count = self.ids.shape
        first = torch.arange(rows, device=self.spans.device).repeat_interleave(count) * count
        *flat, spans = (values.flatten(0, 1) for values in self)
        ids, positions, roles, groups = (values[None] for values in flat)
        no_mask = torch.zeros(1, 0, 0, dtype=torch.bool)
        return Layout(ids, positions, no_mask, roles, groups), spans + first[:, None, None]


@dataclass(frozen=True)
class TrainingBatch:
    """The two streams of a batch and, for each of their [rows, n] positions, a target token or `IGNORE`.

    slots, weights: [rows, n] as in `POSITION`.
    sft, taught: [rows, n] whether a clean position learns its token, and whether it learns the reference's
        distribution. Conversations that the reference wrote (`own`) learn its distributions, others their
        tokens, and unmarked ones both; without a reference, all learn their tokens.
    reference: the positions that the reference computes, if any.
    expected: [k] indices into their rows · n positions of the distributions for the taught targets.
    """

    positions: Positions
    targets: Tensor
    slots: Tensor
    weights: Tensor
    sft: Tensor
    taught: Tensor
    reference: Positions | None
    expected: Tensor | None

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def layout(self) -> Layout:
        return self.positions.layout()

    @property
    def is_clean(self) -> Tensor:
        """The [rows, n] positions of the clean stream."""
        return self.positions.roles == Role.CLEAN

    @property
    def tokens(self) -> int:
        """The number of clean tokens, without padding."""
        return int(self.is_clean.sum())

    @property
    def totals(self) -> Tensor:
        """The [2] summed weights of the clean and noisy targets, by which losses are normalized."""
        weights = self.weights * (self.targets != IGNORE)
        return torch.stack([weights[self.is_clean].sum(), weights[~self.is_clean].sum()])


def batch_of(
    rows: Sequence[Sequence[TwoStreams]], pad_id: int, length: int | None = None, reference: bool = False
) -> TrainingBatch:
    """Return the batch of conversations that share rows.

    length: the positions of a row, at least those of its conversations; None for the longest row.
    reference: whether there is a reference, which computes half as many positions if `length` is given.
    """
    tensors = _tensors(rows, pad_id, length)
    clean, own = tensors["roles"] == Role.CLEAN, tensors["own"]
    taught = [
        [streams[streams["roles"] == Role.CLEAN] for streams in row if streams["own"][0] != OTHER]
        for row in rows
        if reference
    ]
    taught = [row for row in taught if row or length]
    teacher = _tensors(taught, pad_id, length and length // 2) if any(taught) else None
    return TrainingBatch(
        _positions(tensors),
        *(tensors[name] for name in ("targets", "slots", "weights")),
        sft=clean & ((own != OWN) | (not reference)),
        taught=clean & (own != OTHER) & reference,
        reference=teacher and _positions(teacher),
        expected=teacher and (teacher["targets"] != IGNORE).flatten().nonzero()[:, 0],
    )


def _tensors(rows: Sequence[Sequence[TwoStreams]], pad_id: int, length: int | None) -> dict[str, Tensor]:
    """Return [rows, length] tensors of the fields of `POSITION`."""
    filled = np.zeros((len(rows), length or max(sum(map(len, row)) for row in rows)), POSITION)
    padding = {"ids": pad_id, "roles": Role.PADDING, "groups": NO_GROUP, "targets": IGNORE, "slots": 1}
    for name, value in padding.items():
        filled[name] = value
    columns = np.arange(filled.shape[1])
    filled["spans"][..., 1, :] = np.stack([columns, columns + 1], axis=-1)
    for row, conversations in zip(filled, rows):
        end = 0
        for streams in conversations:
            at, end = end, end + len(streams)
            row[at:end] = streams
            row["spans"][at:end] += at
    return {name: torch.from_numpy(np.ascontiguousarray(filled[name])) for name in POSITION.names}


def _positions(tensors: dict[str, Tensor]) -> Positions:
    return Positions(*(tensors[name] for name in Positions._fields))


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Return the values on `device`; the host does not wait for a GPU, which reads pinned memory."""
    if device.type != "cuda":
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def in_spans(spans: Tensor, columns: int) -> Tensor:
    """Return the […, columns] mask of the columns in either range of […, 2, 2] `spans`."""
    keys = torch.arange(columns, device=spans.device)
    begin, end = spans[..., None].unbind(-2)
    return ((begin <= keys) & (keys < end)).any(-2)
