"""One forward of a fixed shape: computed from fixed buffers, so that a CUDA graph can replay it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from mars_demo.models.fused import FusedModel
from mars_demo.models.store import Store

if TYPE_CHECKING:
    from mars_demo.decoding.layout import Layout

_NUMBER = torch.int64.itemsize
_CAPTURING = Lock()  # torch allows one capture at a time in a process
# Graphs whose capture failed. They are never freed, because torch's allocator may go on asking them.
_BROKEN: list[torch.cuda.CUDAGraph] = []


class Shape(NamedTuple):
    """positions: of the forward, padding included.
    rows: positions whose logits are computed, padding included.
    width: columns of the store that attention reads."""

    positions: int
    rows: int
    width: int


class Inputs:
    """What a forward reads besides the weights and the store: parts of one tensor, so that one copy takes
    them to the device.

    ids, places: [positions] token ids and position ids.
    rows: [rows] positions whose logits are wanted.
    past: [1] positions of the text that come before the forward.
    visible: [positions, width] bool; whether a position sees a column of the store.
    """

    def __init__(self, shape: Shape, device: torch.device | str = "cpu", pinned: bool = False):
        count, rows, width = shape
        numbers = _NUMBER * (2 * count + rows + 1)
        self.bytes = torch.zeros(
            numbers + count * width, dtype=torch.uint8, device=device, pin_memory=pinned
        )
        parts = self.bytes[:numbers].view(torch.int64).split([count, count, rows, 1])
        self.ids, self.places, self.rows, self.past = parts
        self.visible = self.bytes[numbers:].view(torch.bool).view(count, width)

    def fill(self, layout: Layout, first: int, past: int) -> None:
        """Write a layout into inputs that are still zero. Padding sees the first column, because attention
        to nothing is no number."""
        count = layout.ids.shape[1]
        self.ids[:count] = layout.ids[0]
        self.places[:count] = layout.positions[0]
        self.rows[: count - first] = torch.arange(first, count)
        self.past[0] = past
        self.visible[:count, : past + count] = layout.visible[0]
        self.visible[count:, 0] = True


class Step:
    """A forward of one shape on one store.

    then: what is made of the [rows, vocabulary] logits in float32, in the same graph; None for the logits
        themselves.
    """

    def __init__(
        self,
        model: FusedModel,
        store: Store,
        shape: Shape,
        then: Callable[[Tensor], Tensor] | None = None,
    ):
        self.model, self.store, self.shape, self.then = model, store, shape, then
        self.runs, self.is_captured = 0, False
        self._inputs = Inputs(shape, model.device)
        self._order = torch.arange(shape.positions, device=model.device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._output: Tensor | None = None  # of the graph

    def take(self, layout: Layout, first: int, past: int) -> None:
        """Take a layout after `past` positions as the input; logits are wanted from position `first` on."""
        on_gpu = self.model.device.type == "cuda"
        inputs = Inputs(self.shape, pinned=on_gpu)
        inputs.fill(layout, first, past)
        self._inputs.bytes.copy_(inputs.bytes, non_blocking=on_gpu)

    def run(self) -> Tensor:
        """Return [rows, …] what is made of the logits, padding included. The keys and values of the input
        are in the store afterwards, from column `past` on. The host does not wait."""
        self.runs += 1
        if not self.is_captured:
            return self._compute()
        self._graph.replay()
        return self._output.clone()  # the next replay overwrites it

    def capture(self, pool: tuple[int, int]) -> None:
        """Record the forward for all runs to come. It computes the input, which may be run again.

        pool: of memory that the graphs of one store share. None of them runs beside another, and their
            outputs are copied at once. After a failed capture it must not be used again.

        Raises:
            Exception: whatever CUDA or torch raises; the step then computes without a graph.
        """
        with _CAPTURING, torch.cuda.device(self.model.device):
            current, side = torch.cuda.current_stream(), _side_stream(self.model.device)
            try:
                side.wait_stream(current)
                with torch.cuda.stream(side):  # what libraries set up at a first call is not recorded
                    self._compute()
                current.wait_stream(side)
                graph = torch.cuda.CUDAGraph()
                _BROKEN.append(graph)
                # Other threads go on computing, and may take memory meanwhile.
                with torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local"):
                    output = self._compute()
                self._graph, self._output, self.is_captured = _BROKEN.pop(), output, True
            finally:
                torch.cuda.set_stream(current)  # a capture that fails leaves its own in place

    def _compute(self) -> Tensor:
        inputs = self._inputs
        columns = inputs.past + self._order
        hidden = self.model.hidden(inputs.ids, inputs.places, inputs.visible, columns, self.store.tensor)
        logits = self.model.logits(hidden.index_select(0, inputs.rows))
        return logits if self.then is None else self.then(logits)


@functools.cache  # libraries keep a workspace for each stream that they have seen
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)
