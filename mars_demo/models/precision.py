"""In which precision a model computes."""

from importlib.util import find_spec

import torch
from transformers import PreTrainedConfig

from mars_demo.models.device import computes_bfloat16
from mars_demo.models.names import gguf_file

BITS = {"int8": 8, "int4": 4}
_WORTH_PACKING = 200  # width below which a forward's time is not that of reading its weights


def default_dtype(path: str, device: str) -> torch.dtype:
    """Return what a device computes fast: bfloat16, float16 on a GPU that lacks it; on a CPU float32, but
    bfloat16 for GGUF files, which are rounded already."""
    if not computes_bfloat16(device):
        return torch.float16
    return torch.float32 if device == "cpu" and not gguf_file(path) else torch.bfloat16


def dense_dtype(wanted: torch.dtype | str, path: str, device: str) -> torch.dtype:
    """Return the dtype of a transformers model, if one is made."""
    if wanted == "auto" or wanted in BITS:
        return default_dtype(path, device)
    return wanted if isinstance(wanted, torch.dtype) else getattr(torch, wanted)


def packed_bits(wanted: torch.dtype | str, path: str, device: str, config: PreTrainedConfig) -> int | None:
    """Return the bits per weight of a packed model; None where it is a transformers model that computes.

    `auto` packs what came in few bits, on a CPU: nothing is lost that a visitor could see, and a forward
    costs a fraction. Weights in full precision keep it unless they are asked to give it up.

    Raises:
        ValueError: if few bits are asked for where they cannot be had.
    """
    if wanted == "auto":
        worth = gguf_file(path) and config.hidden_size >= _WORTH_PACKING
        return 8 if worth and _hindrance(device, config) is None else None
    if wanted not in BITS:
        return None
    if reason := _hindrance(device, config):
        raise ValueError(f"{wanted} cannot be had: {reason} Choose float32 or bfloat16.")
    return BITS[wanted]


def _hindrance(device: str, config: PreTrainedConfig) -> str | None:
    """Return why a model cannot be packed, as a sentence."""
    if torch.device(device).type != "cpu":
        return f"weights of few bits compute on a CPU, not on {device}."
    if not (find_spec("onnx") and find_spec("onnxruntime")):
        return "onnx and onnxruntime are not installed."
    from mars_demo.models.graph import unsupported  # imports onnx, which other models do without

    return unsupported(config)
