"""A KV cache at fixed addresses, as CUDA graphs need it."""

import torch
from torch import Tensor
from transformers import PreTrainedModel


class Store:
    """A buffer for the keys and values of one text on one model.

    tensor: [layers, 2, heads, room, size], keys before values. It never moves; more room needs a new store.
    """

    def __init__(self, model: PreTrainedModel, room: int):
        config = model.config
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = (config.num_hidden_layers, 2, config.num_key_value_heads, room, size)
        # Zeros, because masked values are multiplied by 0 and must be finite.
        self.tensor = torch.zeros(shape, dtype=model.dtype, device=model.device)

    @property
    def room(self) -> int:
        """Return the number of positions that fit."""
        return self.tensor.shape[3]

    def copy_of(self, length: int) -> Tensor:
        """Return a copy [layers, 2, heads, length, size] of the first `length` positions."""
        return self.tensor[:, :, :, :length].clone()

    def put(self, text: Tensor) -> None:
        """Write a copy from `copy_of` to the beginning of the store."""
        self.tensor[:, :, :, : text.shape[3]] = text
