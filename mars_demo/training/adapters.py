"""LoRA adapters for training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transformers import PreTrainedModel

if TYPE_CHECKING:
    from peft import PeftModel


def add_adapters(model: PreTrainedModel, rank: int, mask_id: int | None) -> PeftModel:
    """Add LoRA in place to every linear layer, and train the mask token's embedding in full.

    Saving merges the adapters, so a checkpoint has as many parameters as its base.

    Raises:
        ValueError: if the rank is below 1.
    """
    from peft import LoraConfig, get_peft_model  # slow to import

    if rank < 1:
        raise ValueError(f"The rank of LoRA must be at least 1, not {rank}.")
    tokens = None if mask_id is None else [mask_id]
    config = LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", trainable_token_indices=tokens
    )
    return get_peft_model(model, config)
