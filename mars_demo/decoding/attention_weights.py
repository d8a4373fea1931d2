"""Attention weights of a model on a layout, for mask pictures."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from mars_demo.core.layout import Layout, causal
from mars_demo.models.runtime.decoder import masks, run


def eager(model: PreTrainedModel) -> PreTrainedModel:
    """Return a model with the same weights whose attention is slow and returns its weights."""
    # The leaf modules have the weights, which are not copied.
    shared = {id(layer): layer for layer in model.modules() if not list(layer.children())}
    copied = copy.deepcopy(model, shared).eval()
    copied.set_attn_implementation("eager")
    return copied


@torch.inference_mode()
def attention_weights(
    model: PreTrainedModel, layout: Layout, past: Sequence[int], layer: int, head: int | None
) -> Tensor:
    """Return the [n, past + n] attention weights of one head, or the mean of a layer's heads.

    The layout has one sequence and follows the `past` token ids. Masked positions are exactly 0.

    Raises:
        ValueError: if there is no such layer or head; the message counts them from 1.
    """
    layers, heads = model.config.num_hidden_layers, model.config.num_attention_heads
    if not 0 <= layer < layers or not (head is None or 0 <= head < heads):
        raise ValueError(f"The model has layers 1 to {layers} and heads 1 to {heads}.")
    model, cache = eager(model), DynamicCache()
    for each in [causal(past), layout] if past else [layout]:
        each = each.to(model.device)
        mask = masks(model, each, each.near)
        if isinstance(mask, dict):
            bias = {kind: _bias(visible, model.dtype) for kind, visible in mask.items()}
        else:
            bias = _bias(mask, model.dtype)
        outputs = run(model, each, cache, bias, output_attentions=True)
    chosen = outputs.attentions[layer][0].float().cpu()
    weights = chosen.mean(0) if head is None else chosen[head]
    return weights.masked_fill(~layout.visible[0], 0.0)


def _bias(visible: Tensor, dtype: torch.dtype) -> Tensor:
    bias = torch.zeros_like(visible, dtype=dtype)
    return bias.masked_fill_(~visible, torch.finfo(dtype).min)
