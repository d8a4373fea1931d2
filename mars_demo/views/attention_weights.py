"""A model's attention weights inside a layout, for pictures."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from mars_demo.decoding.engine import KeysAndValues, run
from mars_demo.decoding.layout import Layout, causal


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
        cache = KeysAndValues()
        for each in [causal(past), layout] if past else [layout]:
            bias = torch.zeros(each.visible[:, None].shape, dtype=self.model.dtype)
            bias.masked_fill_(~each.visible[:, None], torch.finfo(bias.dtype).min)
            outputs = run(self.model, each, cache, bias.to(self.model.device), output_attentions=True)
        chosen = outputs.attentions[layer][0].float().cpu()
        weights = chosen.mean(0) if head is None else chosen[head]
        return weights.masked_fill(~layout.visible[0], 0.0)
