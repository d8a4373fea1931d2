"""The checkpoints that the paper's authors published, which come from another code base."""

from __future__ import annotations

from transformers import PreTrainedConfig, Qwen2Config

MODEL_TYPE = "a2d-qwen2"


def published_config(folder: str) -> Qwen2Config | None:
    """The config of a checkpoint that the paper's authors published; None for any other.

    Their configs say `a2d-qwen2`, which transformers does not know; weights and layers are Qwen2's.
    """
    config, _ = PreTrainedConfig.get_config_dict(folder)
    if config.get("model_type") != MODEL_TYPE:
        return None
    foreign = ("model_type", "architectures", "auto_map")
    return Qwen2Config(**{key: value for key, value in config.items() if key not in foreign})
