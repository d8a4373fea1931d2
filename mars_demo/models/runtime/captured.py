"""Decoding of single texts on a GPU with CUDA graphs."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from threading import Lock

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_demo.core.layout import SIZES, Layout, rounded
from mars_demo.models.architectures import LLAMA_LIKE
from mars_demo.models.runtime.decoder import Decoder, sliding_window
from mars_demo.models.runtime.fused import FusedModel
from mars_demo.models.runtime.step import Shape, Step

WIDTH = 1024  # columns of the first store; attention reads all of them

_log = logging.getLogger(__name__)


def captured(model: PreTrainedModel) -> CapturedModel | None:
    """Return the captured model of a supported model on a CUDA device; None for any other model."""
    config = model.config
    fits = config.model_type in LLAMA_LIKE and sliding_window(config) is None
    on_gpu = model.device.type == "cuda" and config._attn_implementation == "sdpa"
    return CapturedModel(model) if fits and on_gpu else None


class CapturedModel(Decoder):
    """A model whose forwards have few shapes and fixed buffers, so that a GPU can replay recorded graphs.

    On any other device the same functions run on the same buffers, without graphs. All texts share one
    store and the same graphs. When a text gives way to another, its keys and values are copied out of the
    store until it returns.

    width: columns of the first store. They double when a text outgrows them, up to the model's context.
    """

    def __init__(self, model: PreTrainedModel, width: int = WIDTH):
        self.model, self.device, self._least = model, model.device, width
        self._fused = FusedModel(model)
        self._store: Tensor | None = None  # see `FusedModel.new_store`
        self._steps: dict[tuple, Step] = {}
        self._pool: tuple[int, int] | None = None  # the memory pool of the graphs
        self._stored: weakref.ref[CapturedText] | None = None  # the text in the store
        self._due: Step | None = None  # the last step, if it should be captured
        self._captures = self.device.type == "cuda"
        self._lock = Lock()  # threads share the store and the buffers

    def new_text(self) -> CapturedText:
        return CapturedText()

    @torch.inference_mode()
    def prepare(self, text: CapturedText) -> None:
        """Put a text into the store, with room for a short forward, before its clock starts."""
        with self._lock:
            is_moved = self._bring(text, text.length + SIZES[-1])
        if is_moved and self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # the forward's time would include the copies

    def forward(
        self,
        text: CapturedText,
        layout: Layout,
        first: int,
        then: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        count = layout.ids.shape[1]
        with self._lock:
            shape = Shape(rounded(count), rounded(count - first))
            self._bring(text, text.length + shape.positions)
            step = self._step(shape, then)
            step.take(layout, first, text.length)
            output = step.run()[: count - first]
            text.length += count
            # Only for the second run of a shape, because most shapes of prompts occur once.
            self._due = step if self._captures and step.runs == 2 and not step.is_captured else None
        return output

    @torch.inference_mode()
    def keep(self, text: CapturedText, length: int) -> None:
        """Keep the first `length` positions, and capture the last forward if its shape has run twice.

        The capture repeats the same computation, outside the measured time of any forward.
        """
        text.length = min(text.length, length)
        with self._lock:
            if self._due:
                self._capture(self._due)
                self._due = None

    def _columns(self, length: int) -> int:
        """Return the columns for `length` positions: doubled until they fit, up to the context."""
        most, columns = max(length, self.model.config.max_position_embeddings + SIZES[-1]), self._least
        while columns < length:
            columns *= 2
        return min(columns, rounded(most))

    def _bring(self, text: CapturedText, length: int) -> bool:
        """Put a text into the store, with room for `length` positions; return whether anything moved."""
        before = self._stored and self._stored()
        small = self._store is None or self._store.shape[3] < length
        if before is text and not small:
            return False
        if before is not None:
            before.waiting, self._stored = self._store[:, :, :, : before.length].clone(), None
        if small:  # graphs contain the addresses of the old store
            self._steps.clear()
            self._pool = self._store = None
            self._store = self._fused.new_store(self._columns(length))
        if text.waiting is not None:
            self._store[:, :, :, : text.length] = text.waiting[:, :, :, : text.length]
            text.waiting = None
        self._stored = weakref.ref(text)
        return True

    def _step(self, shape: Shape, then: Callable[[Tensor], Tensor] | None) -> Step:
        """Return the step of a shape, always the same one for short forwards."""
        step = self._steps.get((shape, then)) or Step(self._fused, self._store, shape, then)
        if shape.positions <= SIZES[-1]:
            self._steps[shape, then] = step
        return step

    def _capture(self, step: Step) -> None:
        try:
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            step.capture(self._pool)
        except Exception as error:  # drivers, libraries and models raise many types
            self._pool = None
            # After a lack of memory, a later capture may succeed.
            self._captures = isinstance(error, torch.OutOfMemoryError)
            _log.warning("Decoding continues without a CUDA graph, because a capture failed: %s", error)


class CapturedText:
    """The keys and values of one text, in the store of its model or copied out of it."""

    length = 0  # valid positions; later ones are overwritten
    waiting: Tensor | None = None  # the copy while another text is in the store
