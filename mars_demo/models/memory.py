"""The memory needs of checkpoints, and the free memory of devices."""

import psutil
import torch
from transformers import PreTrainedConfig, PreTrainedModel

from mars_demo.models.architectures import head_width
from mars_demo.models.checkpoint import Checkpoint

MEMORY = "There is not enough memory for this. Use a shorter prompt or a smaller model."

TEXT = 4096  # tokens of a long conversation and its answer
# Parts of torch's messages on a CPU, where it has no exception type for lack of memory.
_SHORT = ("can't allocate memory", "std::bad_alloc", "could not create a primitive")


def require(name: str, model: PreTrainedModel, device: str, dtype: torch.dtype) -> None:
    """Check that a device has room for a model.

    model: on any device, also without values.

    Raises:
        ValueError: if it has not.
    """
    size, free = needed(model, device, dtype), available(device)
    if free < size:
        raise ValueError(
            f"There is not enough memory for {name} on {device}: it needs {size / 1e9:.1f} GB, and "
            f"{free / 1e9:.1f} GB are free."
        )


def needed(model: PreTrainedModel, device: str, dtype: torch.dtype) -> int:
    """Return the peak bytes of a device for loading and keeping a model's weights.

    On a GPU this includes the KV caches of two texts. Logits take less than the room for loading, which is
    free again by then.

    model: on any device, also without values.
    """
    sizes = [weight.numel() for weight in model.parameters()]
    texts = 0 if torch.device(device).type == "cpu" else cache_size(model.config, dtype, 2 * TEXT)
    # While the largest tensor is dequantized or converted, it exists twice, at most in float32.
    return sum(sizes) * dtype.itemsize + max(sizes) * 4 + texts


def cache_size(config: PreTrainedConfig, dtype: torch.dtype, positions: int) -> int:
    """Return the bytes of a KV cache."""
    heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    return 2 * config.num_hidden_layers * heads * head_width(config) * positions * dtype.itemsize


def require_caches(checkpoint: Checkpoint, positions: int, answers: int = 1) -> None:
    """Check that a device has room for the KV caches of some answers, each with its prompt.

    Raises:
        ValueError: if it has not.
    """
    # A quantized model computes in float32.
    dtype = torch.float32 if checkpoint.quantized else checkpoint.model.dtype
    each = cache_size(checkpoint.model.config, dtype, positions)
    free = available(str(checkpoint.device))
    if answers * each > free:
        raise ValueError(
            f"For {answers} answer{'s' * (answers > 1)}, the KV cache needs {answers * each / 2**30:.1f} "
            f"GiB of memory, and {free / 2**30:.1f} GiB are free, enough for {free // each}."
        )


def available(device: str) -> int:
    """Return the free bytes of a device."""
    kind = torch.device(device)
    if kind.type == "cuda":  # the driver counts memory that torch reserves for later tensors as used
        kept = torch.cuda.memory_reserved(kind) - torch.cuda.memory_allocated(kind)
        return torch.cuda.mem_get_info(kind)[0] + kept
    if kind.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    return psutil.virtual_memory().available


def is_short(error: BaseException) -> bool:
    """Return whether an error means that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _SHORT)
