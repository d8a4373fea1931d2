"""Decoders: forms of a model that compute layouts of single texts and keep their keys and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import Cache, DynamicCache, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPast

from mars_demo.core.layout import Layout

SLIDING = "sliding_attention"  # transformers' name of layers with a sliding window


class Decoder(Protocol):
    """A form of a model that decodes single texts, each with its keys and values in a format of its own."""

    device: torch.device

    def new_text(self) -> Any:
        """Return the keys and values of an empty text."""

    def forward(self, text: Any, layout: Layout, first: int) -> Tensor:
        """Return float32 logits [n - first, vocabulary] of the layout's positions from `first` on.

        The text is extended by all n positions.
        """

    def keep(self, text: Any, length: int) -> None:
        """Keep the first `length` positions of a text."""


class TransformersDecoder(Decoder):
    """A transformers model as a decoder."""

    def __init__(self, model: PreTrainedModel):
        self.model = model

    @property
    def device(self) -> torch.device:
        return self.model.device

    def new_text(self) -> DynamicCache:
        # Without the config, every layer keeps every position, so that every forward can be rolled back.
        return DynamicCache()

    def forward(self, text: DynamicCache, layout: Layout, first: int) -> Tensor:
        outputs = run_layout(self.model, layout, text)
        return logits_of(self.model, outputs.last_hidden_state[0, first:])

    def keep(self, text: DynamicCache, length: int) -> None:
        for layer in text.layers:  # an interrupted forward leaves layers of different lengths
            surplus = layer.get_seq_length() - length
            if surplus > 0:  # transformers before 5.14 crop all at 0
                layer.crop(-surplus)


def run_layout(
    model: PreTrainedModel,
    layout: Layout,
    cache: Cache | None = None,
    mask: object | None = None,
) -> BaseModelOutputWithPast:
    """Return the outputs of the layers for a layout after the cached positions.

    mask: the attention mask in another format; None for the layout's booleans.
    """
    layout = layout.to(model.device)
    mask = masks(model, layout, layout.near) if mask is None else mask
    return model.base_model(
        input_ids=layout.ids,
        position_ids=layout.positions,
        attention_mask=mask,
        past_key_values=cache,
        use_cache=cache is not None,
    )


def sliding_window(config: PreTrainedConfig) -> int | None:
    """Return the sliding attention window of a model's layers; None if all layers see the whole text."""
    window, kinds = getattr(config, "sliding_window", None), getattr(config, "layer_types", None)
    return window if window and (not kinds or SLIDING in kinds) else None


def masks(
    model: PreTrainedModel, layout: Layout, near: Callable[[int], Layout]
) -> Tensor | dict[str, Tensor]:
    """Return the attention mask of a layout, or one per kind of layer.

    layout: on the model's device. near: returns the layout for layers with a sliding window.
    """
    full = layout.visible[:, None]
    if (window := sliding_window(model.config)) is None:
        return full
    narrow = near(window).to(model.device).visible[:, None]
    kinds = getattr(model.config, "layer_types", None) or [SLIDING]
    return {"full_attention": full, SLIDING: narrow} if {*kinds} != {SLIDING} else narrow


def logits_of(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Return float32 logits [k, vocabulary] of hidden states [k, width].

    They are not rounded to the model's own precision first, because equal logits would be common.
    """
    head = model.get_output_embeddings()
    if hidden.dtype == torch.float32:
        return head(hidden)
    weight = head.weight.t()
    if hidden.is_cuda:
        logits = torch.mm(hidden, weight, out_dtype=torch.float32)
    else:  # has no such product, so a second one gives what rounding took from the first
        rounded = torch.mm(hidden, weight)
        logits = rounded.float() + torch.addmm(rounded, hidden, weight, beta=-1).float()
    return logits if head.bias is None else logits + head.bias.float()
