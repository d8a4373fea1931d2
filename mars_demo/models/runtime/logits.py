"""The output head."""

import torch
from torch import Tensor
from transformers import PreTrainedModel


def logits_of(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Return float32 logits [k, vocabulary] of hidden states [k, width].

    On a GPU they are not rounded to the model's own precision first, because equal logits would be common.
    """
    head = model.get_output_embeddings()
    if hidden.is_cuda and hidden.dtype != torch.float32 and head.bias is None:
        return torch.mm(hidden, head.weight.t(), out_dtype=torch.float32)
    return head(hidden).float()
