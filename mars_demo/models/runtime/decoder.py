"""The interface of quantized and captured models, which decode in place of a transformers model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from mars_demo.layout import Layout


class Decoder(Protocol):
    """A form of a model that decodes one text at a time, such as a quantized or a captured one."""

    device: torch.device

    def new_text(self) -> Text:
        """Return an empty text."""

    def forward(
        self, text: Text, layout: Layout, first: int, then: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Return float32 logits [n - first, vocabulary] of the layout's positions from `first` on.

        The text is extended by all n positions.

        then: a function of the logits whose result is returned instead.
        """


class Text:
    """The keys and values of one text, in a decoder's own format.

    length: number of valid positions; later ones are overwritten.
    """

    length = 0

    def forward(self, model: Decoder, *inputs) -> Tensor:
        """Return the result of the model's `forward` on this text."""
        return model.forward(self, *inputs)

    def rewind(self, length: int) -> None:
        """Keep the first `length` positions."""
        self.length = min(self.length, length)
