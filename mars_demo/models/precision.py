"""The precision of a model's weights."""

from importlib.util import find_spec

import torch
from transformers import PreTrainedConfig

from mars_demo.core.names import gguf_file
from mars_demo.models.device import computes_bfloat16

QUANTIZED = "int8"
_WORTH_QUANTIZING = 200  # width below which forwards are not limited by memory bandwidth


def default_dtype(device: str) -> torch.dtype:
    """Return the fast dtype of a device: bfloat16 or, on a GPU without it, float16; float32 on a CPU.

    On a CPU, torch repacks bfloat16 matrices in every forward, which takes longer than the products of a
    window.
    """
    if torch.device(device).type == "cpu":
        return torch.float32
    return torch.bfloat16 if computes_bfloat16(device) else torch.float16


def dense_dtype(dtype: torch.dtype | str, device: str) -> torch.dtype:
    """Return the dtype of the transformers model for a requested dtype or precision."""
    if dtype in ("auto", QUANTIZED):
        return default_dtype(device)
    return dtype if isinstance(dtype, torch.dtype) else getattr(torch, dtype)


def is_quantized(dtype: torch.dtype | str, path: str, device: str, config: PreTrainedConfig) -> bool:
    """Return whether a quantized model should decode instead of a transformers model.

    On a CPU, `auto` quantizes the weights of GGUF files, which are quantized already: the loss is not
    visible, and forwards cost a fraction. Full-precision weights are quantized only on request.

    Raises:
        ValueError: if the requested quantization is not supported.
    """
    if dtype == "auto":
        worth = gguf_file(path) and config.hidden_size >= _WORTH_QUANTIZING
        return bool(worth) and _obstacle(device, config) is None
    if dtype != QUANTIZED:
        return False
    if reason := _obstacle(device, config):
        raise ValueError(f"{dtype} is not supported here: {reason} Choose float32 or bfloat16.")
    return True


def _obstacle(device: str, config: PreTrainedConfig) -> str | None:
    """Return the reason, as a sentence, why a model cannot be quantized; None if it can."""
    if torch.device(device).type != "cpu":
        return f"quantized weights need a CPU, not {device}."
    if not (find_spec("onnx") and find_spec("onnxruntime")):
        return "onnx and onnxruntime are not installed."
    from mars_demo.models.runtime.onnx_graph import unsupported  # imports onnx

    return unsupported(config)
