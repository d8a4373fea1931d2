"""Which model types are supported, and how far.

Every causal model of transformers decodes in full precision if its logits are its head's alone. What needs
code of its own for an architecture is listed here.
"""

from transformers import PreTrainedConfig, Qwen2Config
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

QUANTIZED = ("llama", "qwen2", "qwen3")  # int8 and int4 on a CPU
CAPTURED = ("llama", "qwen2", "qwen3")  # CUDA graphs
GGUF = ("llama",)  # GGUF files read here; transformers reads those of others, more slowly
PUBLISHED = "a2d-qwen2"  # in configs of the paper's authors: weights and layers are Qwen2's
_SCALES = ("logits_scaling", "logit_scale", "final_logit_softcapping")


def require_causal(config: PreTrainedConfig) -> None:
    """Refuse the config of any other model: an encoder, one that classifies, one that reads pictures.

    Raises:
        ValueError: in which way it is another one.
    """
    kind = config.model_type
    if config.is_encoder_decoder:
        raise ValueError(f"it is an encoder with a decoder ({kind}), not a causal language model.")
    is_encoder = kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False)
    if is_encoder or kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise ValueError(f"its model type {kind} is not a causal language model.")
    stored = (config.architectures or [None])[0]
    if stored and stored not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        raise ValueError(f"its weights are of {stored}, which is not a causal language model.")
    if type(getattr(config, "max_position_embeddings", None)) is not int:
        raise ValueError("its config does not say how many positions it was made for.")
    if scale := next((name for name in _SCALES if getattr(config, name, None) not in (None, 1)), None):
        raise ValueError(f"it changes its head's logits afterwards ({scale}), which is not done here.")


def context_of(config: PreTrainedConfig) -> int:
    """Return how many positions can be decoded: every layer must see the whole text."""
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if not window or (kinds and "sliding_attention" not in kinds):
        return config.max_position_embeddings
    return min(window, config.max_position_embeddings)


def published_config(folder: str) -> Qwen2Config | None:
    """Return the config of a checkpoint that the paper's authors published; None for any other."""
    config, _ = PreTrainedConfig.get_config_dict(folder)
    if config.get("model_type") != PUBLISHED:
        return None
    foreign = ("model_type", "architectures", "auto_map")
    return Qwen2Config(**{key: value for key, value in config.items() if key not in foreign})
