"""The memory needs of checkpoints, and the free memory of devices."""

from pathlib import Path

import psutil
import torch
from transformers import PreTrainedConfig, PreTrainedModel

from mars_demo.models.architectures import head_width

MEMORY = "There is not enough memory for this. Use a shorter prompt or a smaller model."

TEXT = 4096  # tokens of a long conversation and its answer
# Parts of torch's messages on a CPU, where it has no exception type for lack of memory.
_SHORT = ("can't allocate memory", "std::bad_alloc", "could not create a primitive")


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


def available(device: str) -> int:
    """Return the free bytes of a device; on a CPU, container limits count too."""
    kind = torch.device(device)
    if kind.type == "cuda":  # the driver counts memory that torch reserves for later tensors as used
        kept = torch.cuda.memory_reserved(kind) - torch.cuda.memory_allocated(kind)
        return torch.cuda.mem_get_info(kind)[0] + kept
    if kind.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    return min([psutil.virtual_memory().available, *container_rooms(Path("/"))])


def is_short(error: BaseException) -> bool:
    """Return whether an error means that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _SHORT)


def container_rooms(root: Path) -> list[int]:
    """Return the free bytes under each memory limit of this process's control groups, version 1 and 2.

    The limits of all parent groups count. A group's file cache is reclaimed when memory is short, so it
    counts as free.
    """
    rooms = []
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return rooms
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        names = names if controllers else ("memory.max", "memory.current", "inactive_file")
        # In a container the group's path may be that of the host; then only the top folder exists.
        inner = base / group.strip("/")
        for folder in (inner, *inner.parents):
            if not folder.is_relative_to(base):
                break
            rooms += _room(folder, *names)
    return rooms


def _room(folder: Path, limit: str, usage: str, cache: str) -> list[int]:
    try:
        most, used = (folder / limit).read_text().strip(), int((folder / usage).read_text())
        counts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except OSError:  # no such group, or no limit
        return []
    return [] if most == "max" else [max(0, int(most) - used + int(counts.get(cache, 0)))]
