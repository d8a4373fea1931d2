"""Attention weights of a model on a layout, for mask pictures."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from mars_demo.core.layout import Layout, causal
from mars_demo.models.runtime.decoder import masks, run


class Attention:
    """A model that shares another's weights and returns attention weights.

    The fast attention implementations do not return them.
    """

    def __init__(self, model: PreTrainedModel):
        # The leaf modules have the weights, which are not copied.
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
        """Return the [n, past + n] attention weights of one head, or the mean of a layer's heads.

        The layout has one sequence and follows the `past` token ids. Masked positions are exactly 0.
        """
        cache = DynamicCache()
        for each in [causal(past), layout] if past else [layout]:
            each = each.to(self.model.device)
            mask = masks(self.model, each, each.near)
            if isinstance(mask, dict):
                bias = {kind: self._bias(visible) for kind, visible in mask.items()}
            else:
                bias = self._bias(mask)
            outputs = run(self.model, each, cache, bias, output_attentions=True)
        chosen = outputs.attentions[layer][0].float().cpu()
        weights = chosen.mean(0) if head is None else chosen[head]
        return weights.masked_fill(~layout.visible[0], 0.0)

    def _bias(self, visible: Tensor) -> Tensor:
        bias = torch.zeros_like(visible, dtype=self.model.dtype)
        return bias.masked_fill_(~visible, torch.finfo(bias.dtype).min)
