"""A transformers model that decodes one text at a time on a GPU, its forwards replayed from CUDA graphs."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_demo.models import architectures
from mars_demo.models.fused import FusedModel
from mars_demo.models.step import Shape, Step
from mars_demo.models.store import Store

if TYPE_CHECKING:
    from mars_demo.decoding.layout import Layout

# A forward is padded to one of these; each shape has a graph of its own. What is longer, prompts above all,
# computes long enough for the host to keep up; it is padded to few shapes too, since kernels are chosen and
# memory is kept by shape.
_SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_ALIGNMENT = 64  # of long forwards, and of a width, for kernels that read a mask in vectors

_log = logging.getLogger(__name__)


def captured(model: PreTrainedModel) -> CapturedModel | None:
    """Return what decodes in place of a model on a CUDA device; None for any other model."""
    fits = model.device.type == "cuda" and model.config.model_type in architectures.CAPTURED
    return CapturedModel(model) if fits and model.config._attn_implementation == "sdpa" else None


class CapturedModel:
    """A model whose forwards have few shapes and fixed buffers, so that on a GPU they are recorded once and
    replayed. On any other device the same functions run on the same buffers.

    All its texts share one store, and so replay the same graphs. When a text makes way for another, its
    keys and values are copied out of the store until it comes back.

    block: positions of the first store. It doubles when a text outgrows it, up to the model's context.
    """

    def __init__(self, model: PreTrainedModel, block: int = 1024):
        self.model, self.device, self._block = model, model.device, block
        self._fused = FusedModel(model)
        self._store: Store | None = None
        self._steps: dict[tuple, Step] = {}
        self._pool: tuple[int, int] | None = None  # of the graphs' memory
        self._stored: weakref.ref[CapturedText] | None = None  # the text in the store
        self._due: Step | None = None  # the last one that ran, if it is to be captured
        self._captures = self.device.type == "cuda"
        self._lock = Lock()  # texts of several threads share store and buffers

    def new_text(self) -> CapturedText:
        return CapturedText()

    @torch.inference_mode()
    def forward(
        self,
        text: CapturedText,
        layout: Layout,
        first: int,
        then: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Return logits from position `first` on, or what `then` makes of them; all positions are kept."""
        count = layout.ids.shape[1]
        with self._lock:
            positions = _padded(count)
            shape = Shape(positions, _padded(count - first), self._width(text.length + positions))
            self._bring(text, shape.width)
            step = self._step(shape, then)
            step.take(layout, first, text.length)
            found = step.run()[: count - first]
            text.length += count
            # Most shapes of prompts come once.
            self._due = step if self._captures and step.runs == 2 and not step.is_captured else None
        return found

    @torch.inference_mode()
    def capture_due(self) -> None:
        """Capture the forward that ran last, if its shape has come twice. It computes its input again; that
        changes nothing, and counts in no forward's time."""
        with self._lock:
            if self._due:
                self._capture(self._due)
                self._due = None

    def _width(self, length: int) -> int:
        """Return columns that attention reads so that `length` positions fit: few different ones."""
        most = max(length, self.model.config.max_position_embeddings + _SIZES[-1])
        width = self._block
        while width < length:
            width *= 2
        return min(width, -(-most // _ALIGNMENT) * _ALIGNMENT)

    def _bring(self, text: CapturedText, width: int) -> None:
        """Put a text into the store, and make room for `width` positions."""
        before = self._stored and self._stored()
        small = self._store is None or self._store.room < width
        if before is text and not small:
            return
        if before is not None:
            before.waiting, self._stored = self._store.copy_of(before.length), None
        if small:  # graphs know the addresses of the old store
            self._steps.clear()
            self._pool = self._store = None
            self._store = Store(self.model, width)
        if text.waiting is not None:
            self._store.put(text.waiting[:, :, :, : text.length])
            text.waiting = None
        self._stored = weakref.ref(text)

    def _step(self, shape: Shape, then: Callable[[Tensor], Tensor] | None) -> Step:
        """Return the step of a shape, the same whenever the shape comes again."""
        if shape.positions > _SIZES[-1]:
            return Step(self._fused, self._store, shape, then)
        if (shape, then) not in self._steps:
            self._steps[shape, then] = Step(self._fused, self._store, shape, then)
        return self._steps[shape, then]

    def _capture(self, step: Step) -> None:
        try:
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            step.capture(self._pool)
        except Exception as error:  # drivers, libraries and models have many reasons
            self._pool = None
            # There may be memory again when the next shape comes.
            self._captures = isinstance(error, torch.OutOfMemoryError)
            _log.warning("Decoding goes on without a CUDA graph, because a capture failed: %s", error)


class CapturedText:
    """The keys and values of one text, in the store of its model or copied out of it."""

    def __init__(self):
        self.length = 0  # positions that count; what lies after them is overwritten
        self.waiting: Tensor | None = None  # the copy, while another text is in the store

    def forward(
        self,
        model: CapturedModel,
        layout: Layout,
        first: int,
        then: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        return model.forward(self, layout, first, then)

    def rewind(self, length: int) -> None:
        self.length = min(self.length, length)


def _padded(count: int) -> int:
    return next((size for size in _SIZES if size >= count), -(-count // _ALIGNMENT) * _ALIGNMENT)
