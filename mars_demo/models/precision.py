"""The precision of a model's weights."""

import platform

import torch
from transformers import PreTrainedConfig

from mars_demo.core.names import gguf_file
from mars_demo.models.device import computes_bfloat16, unit
from mars_demo.models.runtime.onnx_graph import unsupported
from mars_demo.models.runtime.quantized import kernel

QUANTIZED = "int8"
_WORTH_QUANTIZING = 200  # width below which forwards are not limited by memory bandwidth


def dense_dtype(dtype: torch.dtype | str, device: str) -> torch.dtype:
    """Return the dtype of the transformers model for a requested dtype or precision.

    By default it is the fast one of the device: bfloat16 or, on a GPU without it, float16. It is float32
    on a CPU, where torch repacks bfloat16 matrices in every forward, which takes longer than the products.
    """
    if dtype not in ("auto", QUANTIZED):
        return dtype if isinstance(dtype, torch.dtype) else getattr(torch, dtype)
    if torch.device(device).type == "cpu":
        return torch.float32
    return torch.bfloat16 if computes_bfloat16(device) else torch.float16


def is_quantized(dtype: torch.dtype | str, path: str, device: str, config: PreTrainedConfig) -> bool:
    """Return whether a quantized model should decode instead of a transformers model.

    On a CPU, `auto` quantizes the weights of GGUF files, which are quantized already: the loss is not
    visible, and forwards cost a fraction. Full-precision weights are quantized only on request. Where the
    kernels are wrong, no model is quantized.

    Raises:
        ValueError: if the requested quantization is not supported.
    """
    is_cpu = torch.device(device).type == "cpu"
    obstacle = unsupported(config) if is_cpu else f"quantized weights need a CPU, not {device}."
    if dtype == QUANTIZED and obstacle:
        raise ValueError(f"{dtype} is not supported here: {obstacle} Choose float32 or bfloat16.")
    worth = dtype == "auto" and gguf_file(path) and config.hidden_size >= _WORTH_QUANTIZING
    return bool(dtype == QUANTIZED or worth) and not obstacle and kernel() is not None


def integer_kernel() -> str:
    """Return the kind of integer products that run on this CPU: their weights, and the unit of the CPU."""
    return f"{kernel()} bytes, {unit() or f'{platform.machine()} (not measured)'}"
