"""A vector that is added to the mask token's embedding during training and merged into it when saved.

At the learning rate of the other weights, the mask's embedding hardly moves from its initial value, the
mean of all tokens. A separate vector has its own learning rate, and a head start.
"""

import torch
from torch import Tensor, nn


class MaskVector(nn.Module):
    """A trainable vector added to the embedding of every mask until it is merged."""

    def __init__(self, embedding: nn.Embedding, mask_id: int):
        super().__init__()
        self.vector = nn.Parameter(torch.zeros(embedding.embedding_dim, device=embedding.weight.device))
        self.mask_id = mask_id
        self._embedding = (embedding,)  # in a tuple, because it belongs to the model and not to this module
        self._hook = embedding.register_forward_hook(self._add)

    def _add(self, module: nn.Module, inputs: tuple[Tensor], embedded: Tensor) -> Tensor:
        return embedded + (inputs[0] == self.mask_id)[..., None] * self.vector.to(embedded.dtype)

    @torch.no_grad()
    def merge(self) -> None:
        """Add the vector to the embedding weight and remove the hook."""
        self._hook.remove()
        self._embedding[0].weight[self.mask_id] += self.vector
