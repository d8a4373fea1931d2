"""The table of supported model types.

Every causal model of transformers decodes in full precision if it does not transform the logits of its
head. Some features need Llama's layers.
"""

import copy

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel, Qwen2Config
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

# The types with Llama's layers: int8 on a CPU, ONNX exports, GGUF files.
LLAMA_LIKE = ("llama", "qwen2", "qwen3")
PUBLISHED = "a2d-qwen2"  # model type of the paper's checkpoints, which have the weights and layers of Qwen2
_SCALES = ("logits_scaling", "logit_scale", "final_logit_softcapping")


def require_causal(config: PreTrainedConfig) -> None:
    """Check that a config describes a supported causal language model.

    Raises:
        ValueError: if it does not, with the reason.
    """
    kind = config.model_type
    if config.is_encoder_decoder:
        raise ValueError(f"it is an encoder-decoder model ({kind}), not a causal language model.")
    is_encoder = kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False)
    if is_encoder or kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise ValueError(f"its model type {kind} is not a causal language model.")
    stored = (config.architectures or [None])[0]
    if stored and stored not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        raise ValueError(f"its weights are those of {stored}, which is not a causal language model.")
    if type(getattr(config, "max_position_embeddings", None)) is not int:
        raise ValueError("its config does not give its context length (max_position_embeddings).")
    if scale := next((name for name in _SCALES if getattr(config, name, None) not in (None, 1)), None):
        raise ValueError(f"it scales the logits of its head ({scale}), which is not supported.")


def empty(config: PreTrainedConfig) -> PreTrainedModel:
    """Return a model without weight values, on torch's device `meta`."""
    config = copy.deepcopy(config)
    with torch.device("meta"):
        # transformers would set a dtype as torch's default for all threads while it builds the model.
        return AutoModelForCausalLM.from_config(
            config, dtype=None, attn_implementation="sdpa", trust_remote_code=False
        )


def head_width(config: PreTrainedConfig) -> int:
    """Return the width of an attention head."""
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def published_config(folder: str) -> Qwen2Config | None:
    """Return the config of one of the paper's checkpoints; None for any other checkpoint."""
    config, _ = PreTrainedConfig.get_config_dict(folder)
    if config.get("model_type") != PUBLISHED:
        return None
    foreign = ("model_type", "architectures", "auto_map")
    return Qwen2Config(**{key: value for key, value in config.items() if key not in foreign})
