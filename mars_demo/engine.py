"""Runs layouts against a KV cache. Knows no text and no threshold."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from mars_demo.layout import Layout


class Engine:
    """One text's cache on one model: forward a layout, then commit what of it is there to stay."""

    def __init__(self, model: PreTrainedModel):
        self.model = model
        # Made without the config on purpose: every layer keeps every position, so any forward can be
        # rolled back.
        self.cache = DynamicCache()
        self.length = 0  # committed positions

    @torch.inference_mode()
    def forward(self, layout: Layout, first: int = 0) -> Tensor:
        """Logits [n - first, vocabulary] in float32 of the layout's positions from `first` on.

        The layout has one row and counts `length` cached positions as its past. All its n positions are in
        the cache afterwards, until `commit`.
        """
        layout = layout.to(self.model.device)
        hidden = self.model.base_model(
            input_ids=layout.ids,
            position_ids=layout.positions,
            attention_mask=layout.visible[:, None],
            past_key_values=self.cache,
            use_cache=True,
        ).last_hidden_state
        return self.model.get_output_embeddings()(hidden[0, first:]).float()

    def commit(self, count: int) -> None:
        """Keep the first `count` positions of the last forward and drop the others from the cache."""
        self.rewind(self.length + count)

    def rewind(self, length: int) -> None:
        """Keep the first `length` positions of all that the cache holds."""
        surplus = self.cache.get_seq_length() - length
        self.length = length
        self.cache.crop(-surplus)
