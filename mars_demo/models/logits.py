"""Logits: what the head of a model makes of hidden states."""

import torch
from torch import Tensor
from transformers import PreTrainedModel


def logits_of(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Return [k, vocabulary] logits in float32 of [k, width] hidden states, chosen before this large
    product. A GPU does not round them to the model's own precision before: equal logits would be common."""
    head = model.get_output_embeddings()
    if hidden.is_cuda and hidden.dtype != torch.float32 and head.bias is None:
        return torch.mm(hidden, head.weight.t(), out_dtype=torch.float32)
    return head(hidden).float()
