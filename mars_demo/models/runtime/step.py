"""Forwards of fixed shapes from fixed buffers, so that a CUDA graph can replay them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

import torch
from torch import Tensor

from mars_demo.core.layout import Layout
from mars_demo.models.runtime.fused import FusedModel

_NUMBER = torch.int64.itemsize
_CAPTURING = Lock()  # torch allows one capture at a time in a process
# Graphs whose capture failed. They are never freed, because torch's allocator may still use them.
_BROKEN: list[torch.cuda.CUDAGraph] = []


class Shape(NamedTuple):
    """The shape of a forward.

    positions: number of positions, including padding.
    rows: number of positions whose logits are computed, including padding.
    """

    positions: int
    rows: int


class Inputs:
    """The inputs of a forward, as views of one tensor, so that one copy moves them to the device.

    ids, places: [positions] token ids and position ids.
    rows: [rows] positions whose logits are computed.
    past: [1] number of positions before the forward.
    visible: [positions, width] bool; the attention mask over the columns of the store.
    """

    def __init__(self, shape: Shape, width: int, device: torch.device | str = "cpu", pinned: bool = False):
        count, rows = shape
        numbers = _NUMBER * (2 * count + rows + 1)
        self.bytes = torch.zeros(
            numbers + count * width, dtype=torch.uint8, device=device, pin_memory=pinned
        )
        parts = self.bytes[:numbers].view(torch.int64).split([count, count, rows, 1])
        self.ids, self.places, self.rows, self.past = parts
        self.visible = self.bytes[numbers:].view(torch.bool).view(count, width)

    def fill(self, layout: Layout, first: int, past: int) -> None:
        """Write a layout into inputs that are still zero.

        Padding attends to the first column, because attention to nothing is NaN.
        """
        count = layout.ids.shape[1]
        self.ids[:count] = layout.ids[0]
        self.places[:count] = layout.positions[0]
        self.rows[: count - first] = torch.arange(first, count)
        self.past[0] = past
        self.visible[:count, : past + count] = layout.visible[0]
        self.visible[count:, 0] = True


class Step:
    """A forward of one shape on one store.

    then: a function of the float32 logits [rows, vocabulary], computed in the same graph; None for the
        logits themselves.
    """

    def __init__(
        self,
        model: FusedModel,
        store: Tensor,
        shape: Shape,
        then: Callable[[Tensor], Tensor] | None = None,
    ):
        self.model, self.store, self.shape, self.then = model, store, shape, then
        self.runs, self.is_captured = 0, False
        self._inputs = Inputs(shape, store.shape[3], model.device)
        self._order = torch.arange(shape.positions, device=model.device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._output: Tensor | None = None  # the output buffer of the graph

    def take(self, layout: Layout, first: int, past: int) -> None:
        """Copy a layout after `past` positions to the device, to compute logits from `first` on."""
        on_gpu = self.model.device.type == "cuda"
        inputs = Inputs(self.shape, self.store.shape[3], pinned=on_gpu)
        inputs.fill(layout, first, past)
        self._inputs.bytes.copy_(inputs.bytes, non_blocking=on_gpu)

    def run(self) -> Tensor:
        """Return the logits [rows, vocabulary] or the result of `then`, including padding.

        The store then holds the keys and values of the input from column `past` on. The host does not wait.
        """
        self.runs += 1
        if not self.is_captured:
            return self._compute()
        self._graph.replay()
        return self._output.clone()  # the next replay overwrites it

    def capture(self, pool: tuple[int, int]) -> None:
        """Capture the forward as a graph for all later runs; this computes the current input again.

        pool: the memory pool that the graphs of one store share. They never run concurrently, and their
            outputs are copied at once. After a failed capture the pool must not be used again.

        Raises:
            Exception: any exception of CUDA or torch; the step then computes without a graph.
        """
        with _CAPTURING, torch.cuda.device(self.model.device):
            current, side = torch.cuda.current_stream(), _side_stream(self.model.device)
            try:
                side.wait_stream(current)
                with torch.cuda.stream(side):  # a first call outside the graph, for the setup of libraries
                    self._compute()
                current.wait_stream(side)
                graph = torch.cuda.CUDAGraph()
                _BROKEN.append(graph)
                # Other threads continue to compute and may allocate memory meanwhile.
                with torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local"):
                    output = self._compute()
                self._graph, self._output, self.is_captured = _BROKEN.pop(), output, True
            finally:
                torch.cuda.set_stream(current)  # a failed capture does not restore the stream

    def _compute(self) -> Tensor:
        inputs = self._inputs
        columns = inputs.past + self._order
        hidden = self.model.hidden(inputs.ids, inputs.places, inputs.visible, columns, self.store)
        logits = self.model.logits(hidden.index_select(0, inputs.rows))
        return logits if self.then is None else self.then(logits)


@functools.cache  # libraries keep a workspace for each stream
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)
