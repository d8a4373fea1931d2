"""The interface of quantized and captured models, which decode in place of a transformers model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from mars_demo.layout import Layout


class Text(Protocol):
    """The keys and values of one text, in a decoder's own format."""

    def forward(
        self, model: Decoder, layout: Layout, first: int, then: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Return logits from position `first` on, or the result of `then`; keep all positions."""

    def rewind(self, length: int) -> None:
        """Keep the first `length` positions."""


class Decoder(Protocol):
    """A form of a model that decodes one text at a time, such as a quantized or a captured one."""

    device: torch.device

    def new_text(self) -> Text:
        """Return an empty text."""
