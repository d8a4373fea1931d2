"""Keys and values of one text at fixed addresses, as a CUDA graph needs them."""

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import CacheLayerMixin


class Store:
    """Room for the keys and values of one text on one model.

    tensor: [layers, 2, heads, room, size], keys before values. It never moves; more room is another store.
    """

    def __init__(self, model: PreTrainedModel, room: int):
        config = model.config
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = (config.num_hidden_layers, 2, config.num_key_value_heads, room, size)
        # Zeros, because what is not seen is multiplied by 0 and must be finite.
        self.tensor = torch.zeros(shape, dtype=model.dtype, device=model.device)

    @property
    def room(self) -> int:
        """Positions that fit."""
        return self.tensor.shape[3]

    def cache(self, columns: Tensor, width: int) -> Cache:
        """Return the cache of one forward, which writes to `columns` [n] and reads the first `width`."""
        return Cache(layers=[StoredLayer(*layer, columns, width) for layer in self.tensor[:, :, None]])

    def copy_of(self, length: int) -> Tensor:
        """Return [layers, 2, heads, length, size] of the first `length` positions."""
        return self.tensor[:, :, :, :length].clone()

    def put(self, text: Tensor) -> None:
        """Begin with what `copy_of` gave."""
        self.tensor[:, :, :, : text.shape[3]] = text


class StoredLayer(CacheLayerMixin):
    """One layer's part of a store in one forward; its columns lie on the device, for recorded kernels."""

    is_sliding = False

    def __init__(self, keys: Tensor, values: Tensor, columns: Tensor, width: int):
        super().__init__()
        self.keys, self.values, self.columns, self.width = keys, values, columns, width
        self.is_initialized = True

    def lazy_initialization(self, keys: Tensor, values: Tensor) -> None:
        """Do nothing: the store is there before any layer."""

    def update(self, keys: Tensor, values: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
        self.keys.index_copy_(2, self.columns, keys)
        self.values.index_copy_(2, self.columns, values)
        return self.keys[:, :, : self.width], self.values[:, :, : self.width]

    def get_seq_length(self) -> int:
        return 0  # it is on the device; layouts carry their own positions and masks

    def get_max_length(self) -> int:
        return self.keys.shape[2]

    def get_mask_sizes(self, *args, **kwargs) -> tuple[int, int]:
        return self.width, 0
