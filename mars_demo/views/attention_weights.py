"""A model's attention weights inside a layout, for pictures."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_demo.decoding.layout import Layout


class Attention:
    """A model with the weights of another that gives its attention weights, which the fast implementations
    do not."""

    def __init__(self, model: PreTrainedModel):
        # Layers without layers inside them hold the weights; these are not copied.
        shared = {id(layer): layer for layer in model.modules() if not list(layer.children())}
        self.model = copy.deepcopy(model, shared).eval()
        self.model.set_attn_implementation("eager")

    @property
    def layers(self) -> int:
        return self.model.config.num_hidden_layers

    @property
    def heads(self) -> int:
        return self.model.config.num_attention_heads

    @torch.inference_mode()
    def weights(self, layout: Layout, past: Sequence[int], layer: int, head: int | None) -> Tensor:
        """Return [n, past + n] weights of one layer's head, or the mean of its heads, for a layout of one
        row after the `past` token ids. What the layout hides is exactly 0."""
        known, new = len(past), layout.ids.shape[1]
        visible = torch.zeros(known + new, known + new, dtype=torch.bool)
        visible[:known, :known] = torch.ones(known, known, dtype=torch.bool).tril()
        visible[known:] = layout.visible[0]
        device, dtype = self.model.device, self.model.dtype
        bias = torch.zeros(visible.shape, dtype=dtype).masked_fill(~visible, torch.finfo(dtype).min)
        ids = torch.cat([torch.tensor([list(past)], dtype=torch.long), layout.ids], dim=1)
        positions = torch.cat([torch.arange(known)[None], layout.positions], dim=1)
        outputs = self.model(
            input_ids=ids.to(device),
            position_ids=positions.to(device),
            attention_mask=bias[None, None].to(device),
            output_attentions=True,
            use_cache=False,
        )
        chosen = outputs.attentions[layer][0].float().cpu()
        weights = chosen.mean(0) if head is None else chosen[head]
        return weights[known:].masked_fill(~visible[known:], 0.0)
