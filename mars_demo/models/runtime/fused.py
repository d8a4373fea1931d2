"""The layers of a Llama or Qwen with few operators, to save GPU kernels and host calls.

They use the transformers model's own weights. Projections of the same input are one product, rotary
embeddings are two products and a shift, and the heads that share keys are rows of one attention.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm, scaled_dot_product_attention
from transformers import PreTrainedModel

from mars_demo.models.runtime.decoder import logits_of


@dataclass(frozen=True)
class SharedInputs:
    """The inputs that all layers of a forward of n positions share.

    cos, sin: [n, 1, size] rotary embeddings; the first half of the sines is negated, for the shift.
    bias: [n × queries per key, width] the bias of the attention scores.
    columns: [n] the columns of the store for the new keys and values.
    """

    cos: Tensor
    sin: Tensor
    bias: Tensor
    columns: Tensor


class FusedLayer:
    """One layer; `store` is its [2, heads, width, size] keys and values."""

    def __init__(self, layer: nn.Module, heads: int, groups: int):
        attention, mlp = layer.self_attn, layer.mlp
        self.heads, self.groups, self.size = heads, groups, attention.head_dim
        self.norms = layer.input_layernorm, layer.post_attention_layernorm
        self.head_norms = [
            norm for name in ("q_norm", "k_norm") if (norm := getattr(attention, name, None))
        ]
        self.qkv = joined(attention.q_proj, attention.k_proj, attention.v_proj)
        self.gate_up = joined(mlp.gate_proj, mlp.up_proj)
        self.out, self.down, self.activate = attention.o_proj, mlp.down_proj, mlp.act_fn

    def __call__(self, hidden: Tensor, shared: SharedInputs, store: Tensor) -> Tensor:
        """Return the layer's output [n, width] for hidden states [n, width]."""
        attended = self._attended(_normed(hidden, self.norms[0]), shared, store)
        hidden = _added(hidden, attended, self.out)
        gate, up = nn.functional.linear(_normed(hidden, self.norms[1]), *self.gate_up).chunk(2, dim=-1)
        return _added(hidden, self.activate(gate) * up, self.down)

    def _attended(self, hidden: Tensor, shared: SharedInputs, store: Tensor) -> Tensor:
        count, groups, size = len(hidden), self.groups, self.size
        parts = nn.functional.linear(hidden, *self.qkv).view(count, -1, size)
        turned, values = parts.split([self.heads + groups, groups], dim=1)
        if self.head_norms:
            pair = zip(turned.split([self.heads, groups], dim=1), self.head_norms)
            turned = torch.cat([_normed(part, norm) for part, norm in pair], dim=1)
        turned = torch.addcmul(turned * shared.cos, turned.roll(size // 2, -1), shared.sin)
        queries, keys = turned.split([self.heads, groups], dim=1)
        for new, stored in zip((keys, values), store):
            stored.index_copy_(1, shared.columns, new.transpose(0, 1))
        output = scaled_dot_product_attention(
            queries.view(count, groups, -1, size).transpose(0, 1).reshape(1, groups, -1, size),
            *store[:, None],
            attn_mask=shared.bias[None, None],
        )
        return output.view(groups, count, -1, size).transpose(0, 1).reshape(count, -1)


class FusedModel:
    """All layers of a transformers model, from the embedding to the final norm, and its head."""

    def __init__(self, model: PreTrainedModel):
        config, self._model, self._base = model.config, model, model.base_model
        self.device = model.device
        self._heads, self._groups = config.num_attention_heads, config.num_key_value_heads
        self.layers = [FusedLayer(layer, self._heads, self._groups) for layer in self._base.layers]

    def hidden(
        self, ids: Tensor, places: Tensor, visible: Tensor, columns: Tensor, store: Tensor
    ) -> Tensor:
        """Return the head's input [n, width] for n tokens.

        ids, places: [n] token ids and position ids.
        visible: [n, width] the attention mask over the columns of the store.
        columns: [n] the columns of the store for the new keys and values.
        store: [layers, 2, heads, width, size] keys and values, at a fixed address for graphs.
        """
        hidden = self._base.embed_tokens(ids)
        cos, sin = (part[0, :, None] for part in self._base.rotary_emb(hidden[None], places[None]))
        half = cos.shape[-1] // 2
        sin = torch.cat([-sin[..., :half], sin[..., half:]], dim=-1)
        bias = torch.zeros_like(visible, dtype=hidden.dtype).masked_fill_(visible.logical_not(), -torch.inf)
        bias = bias.repeat_interleave(self._heads // self._groups, dim=0)
        shared = SharedInputs(cos, sin, bias, columns)
        for layer, layer_store in zip(self.layers, store):
            hidden = layer(hidden, shared, layer_store)
        return _normed(hidden, self._base.norm)

    def new_store(self, room: int) -> Tensor:
        """Return a store for `hidden` with columns for `room` positions.

        Its values are zeros, because masked values are multiplied by 0 and must be finite.
        """
        shape = (len(self.layers), 2, self._groups, room, self.layers[0].size)
        return torch.zeros(shape, dtype=self._model.dtype, device=self.device)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of the head's inputs."""
        return logits_of(self._model, hidden)


@torch.no_grad()
def joined(*layers: nn.Linear) -> tuple[Tensor, Tensor | None]:
    """Return one matrix and one bias for layers with the same input.

    The layers' own parameters become views of them, so that nothing is stored twice and training changes
    both.
    """
    weight = torch.cat([layer.weight for layer in layers])
    bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
    sizes = [layer.out_features for layer in layers]
    for layer, part in zip(layers, weight.split(sizes)):
        layer.weight.data = part
    if bias is not None:
        for layer, part in zip(layers, bias.split(sizes)):
            layer.bias.data = part
    return weight, bias


def _normed(hidden: Tensor, norm: nn.Module) -> Tensor:
    return rms_norm(hidden, norm.weight.shape, norm.weight, norm.variance_epsilon)


def _added(hidden: Tensor, inputs: Tensor, layer: nn.Linear) -> Tensor:
    """Return hidden states plus the output of a linear layer for its inputs."""
    added = torch.addmm(hidden, inputs, layer.weight.t())
    return added if layer.bias is None else added + layer.bias
