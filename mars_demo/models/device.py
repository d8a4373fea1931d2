"""Where a model computes: the best device of this machine, and what a device is called."""

import platform
from pathlib import Path

import torch

# cuDNN's attention, torch's first choice on recent GPUs, plans anew for every shape, and wrong results with
# masks are known.
torch.backends.cuda.enable_cudnn_sdp(False)

# Of a processor, best first, by the flags of /proc/cpuinfo.
UNITS = {"amx_bf16": "AMX", "avx512_vnni": "AVX-512 VNNI", "avx512f": "AVX-512", "avx2": "AVX2"}


def devices() -> list[str]:
    """Return the kinds of device that torch can use here, the best first."""
    kinds = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    return [kind for kind, is_here in kinds.items() if is_here]


def best() -> str:
    return devices()[0]


def usable(name: str | None = None) -> str:
    """Return the device of that name, the best one for None.

    Raises:
        ValueError: if there is no such device here.
    """
    if name is None:
        return best()
    try:
        torch.empty(0, device=name)
    except Exception as error:  # torch has a kind of its own for every way to lack a device
        allowed = ", ".join(devices())
        raise ValueError(f"There is no device {name!r} here. Choose from {allowed}.") from error
    return name


def computes_bfloat16(device: str) -> bool:
    """Return whether a GPU has units for bfloat16; older ones, a T4 say, emulate it slowly."""
    return not device.startswith("cuda") or torch.cuda.is_bf16_supported(including_emulation=False)


def multiplies_bfloat16(device: str) -> bool:
    """Return whether large products are faster in bfloat16; CPUs without AVX-512 take ten times as long."""
    if device.startswith("cpu"):
        return torch.backends.cpu.get_cpu_capability() == "AVX512"
    return computes_bfloat16(device)


def gpu_name(device: torch.device) -> str | None:
    """Return what the GPU is called, such as "NVIDIA H200"; None for a CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return "Apple GPU" if device.type == "mps" else None


def processor() -> str:
    """Return the processor's name and its units for products in few bits."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    found = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    name = found.get("model name", platform.machine()).replace("(R)", "").replace("(TM)", "")
    flags = found.get("flags", "").split()
    units = next((units for flag, units in UNITS.items() if flag in flags), None)
    return f"{name} with {units}" if units else name
