"""The devices of this machine, their abilities and their names."""

import platform
from pathlib import Path

import torch

# torch prefers cuDNN's attention on recent GPUs, but it plans anew for every shape and has known wrong
# results with masks.
torch.backends.cuda.enable_cudnn_sdp(False)

# Units of a CPU for integer products, best first, by the flags of /proc/cpuinfo.
UNITS = {
    "amx_int8": "AMX",
    "avx512_vnni": "AVX-512 VNNI",
    "avx_vnni": "AVX-VNNI",
    "avx512f": "AVX-512",
    "avx2": "AVX2",
}


def devices() -> list[str]:
    """Return the device types that torch can use here, best first."""
    kinds = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    return [kind for kind, is_here in kinds.items() if is_here]


def best() -> str:
    """Return the best device type of this machine."""
    return devices()[0]


def usable(name: str | None = None) -> str:
    """Return the device with a name, or the best device for None.

    Raises:
        ValueError: if there is no such device.
    """
    if name is None:
        return best()
    try:
        torch.empty(0, device=name)
    except Exception as error:  # torch raises many types for a missing device
        allowed = ", ".join(devices())
        raise ValueError(f"There is no device {name!r} here. Choose from {allowed}.") from error
    return name


def computes_bfloat16(device: str) -> bool:
    """Return whether a device computes bfloat16 natively; older GPUs such as a T4 emulate it slowly."""
    # torch.cuda.is_bf16_supported would ask the current GPU. ROCm's GPUs all compute it.
    is_cuda = device.startswith("cuda") and not torch.version.hip
    return not is_cuda or torch.cuda.get_device_capability(device) >= (8, 0)


def multiplies_bfloat16(device: str) -> bool:
    """Return whether large products are faster in bfloat16; they are ten times slower without AVX-512."""
    if device.startswith("cpu"):
        return torch.backends.cpu.get_cpu_capability() == "AVX512"
    return computes_bfloat16(device)


def gpu_name(device: torch.device) -> str | None:
    """Return the name of a GPU, such as "NVIDIA H200"; None for a CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return "Apple GPU" if device.type == "mps" else None


def processor() -> str:
    """Return the name and model of the CPU and its best unit for integer products."""
    info = _cpu_info()
    name = info.get("model name", platform.machine()).replace("(R)", "").replace("(TM)", "")
    if "model" in info:
        name += f" (family {info['cpu family']}, model {info['model']})"
    return f"{name} with {best}" if (best := unit()) else name


def unit() -> str | None:
    """Return the best unit of this CPU for integer products; None if it has none that is known here."""
    flags = _cpu_info().get("flags", "").split()
    return next((name for flag, name in UNITS.items() if flag in flags), None)


def _cpu_info() -> dict[str, str]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
