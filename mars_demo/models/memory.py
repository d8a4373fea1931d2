"""How much memory a checkpoint will take on a device, and how much the device has left."""

import math
from pathlib import Path

import psutil
import torch
from transformers import PreTrainedConfig

from mars_demo.models import reordering
from mars_demo.models.names import locate
from mars_demo.models.weights import stored_shapes

MEMORY = "There is not enough memory for this. A shorter prompt or a smaller model needs less."

# Of what torch raises on a processor, where it has no exception of its own for it.
_SHORT = ("can't allocate memory", "std::bad_alloc", "could not create a primitive")
_HEADS = ("lm_head.weight", "output.weight")  # in safetensors and in GGUF


def needed(path: str, device: str, dtype: torch.dtype) -> int:
    """Return the bytes of the device that a checkpoint takes at most, while it is loaded and afterwards,
    from the headers of its files.

    path: a bundled name, a folder or a GGUF file.

    Raises:
        ValueError: if there is no such checkpoint.
        SafetensorError, OSError: if its files are broken.
    """
    path = locate(path)
    tied = _tied(path)
    sizes = [math.prod(s) for name, s in stored_shapes(path).items() if not (tied and name in _HEADS)]
    # The largest tensor is there twice while it is unpacked or converted, at most in float32.
    largest = max(sizes, default=0) * 4
    on_cpu = torch.device(device).type == "cpu"
    copies = 2 if on_cpu and dtype == torch.bfloat16 and reordering.is_available() else 1
    return copies * sum(sizes) * dtype.itemsize + largest


def available(device: str) -> int:
    """Return the free bytes of a device: of a CPU, what machine and container limits leave."""
    kind = torch.device(device)
    if kind.type == "cuda":  # what torch keeps for later tensors is taken in the driver's eyes
        kept = torch.cuda.memory_reserved(kind) - torch.cuda.memory_allocated(kind)
        return torch.cuda.mem_get_info(kind)[0] + kept
    if kind.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    return min([psutil.virtual_memory().available, *container_rooms(Path("/"))])


def release() -> None:
    """Give back what torch keeps of a GPU's memory for later tensors: other libraries may need it."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def is_short(error: BaseException) -> bool:
    """Return whether an error says that there was not enough memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _SHORT)


def _tied(path: str) -> bool:
    """Return whether the head is the embedding, so that a stored one takes nothing."""
    if not Path(path).is_dir():
        return False
    config, _ = PreTrainedConfig.get_config_dict(path)
    return bool(config.get("tie_word_embeddings", False))


def container_rooms(root: Path) -> list[int]:
    """Return what the memory limits of this process's control groups leave, of version 1 and 2: the limits
    of its group and of those around it. A group's file cache is given back when memory is short, so it is
    free."""
    rooms = []
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # no Linux
        return rooms
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        names = names if controllers else ("memory.max", "memory.current", "inactive_file")
        # In a container the group's path may be the host's: then only the top is there.
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
    except OSError:  # no such group, or one without a limit
        return []
    return [] if most == "max" else [max(0, int(most) - used + int(counts.get(cache, 0)))]
