"""A CUDA device without a GPU: its tensors have shapes, dtypes and a device, but no values.

It finds tensors on the wrong device and copies that the host waits for. Tensors on the CPU are real.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

CUDA = torch.device("cuda", 0)
LIBRARY = Path(torch.__file__).parent / "lib" / "libc10.so"
_FAKES = FakeTensorMode(allow_non_fake_inputs=True)
_COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
_PINNED = (torch.ops.aten.pin_memory, torch.ops.aten._pin_memory)
_CUDA_TYPE, _META_TYPE, _TYPES = 1, 14, 21  # of c10::DeviceType


class HostWaitError(AssertionError):
    """A copy that the host waits for."""


class _OnlyDevice(TorchDispatchMode):
    """A mode that fakes only what a device computes, and raises where the host would wait for it."""

    def __torch_dispatch__(self, function, types, args=(), options=None):
        options = options or {}
        leaves = tree_leaves((args, options))
        if not any(
            isinstance(leaf, FakeTensor) or isinstance(leaf, torch.device) and leaf.type == "cuda"
            for leaf in leaves
        ):
            if function.overloadpacket in _PINNED:  # it needs a driver
                return args[0]
            with _disable_current_modes():
                return function(*args, **options)
        if function.overloadpacket is torch.ops.aten.to:
            with self:  # its copy comes here too
                return function.decompose(*args, **options)
        if function in _COPIES and not (options.get("non_blocking") or args[2:] == (True,)):
            source = args[_COPIES.index(function)]
            if source.device.type == "cpu" and source.numel():
                raise HostWaitError(f"The host waits for a copy of {tuple(source.shape)} to the device.")
        output = function(*args, **options)
        if any(isinstance(leaf, Tensor) and leaf.device.type != "cuda" for leaf in tree_leaves(output)):
            raise HostWaitError(f"{function} copies to the host.")
        return output


@contextmanager
def fake_cuda() -> Iterator[None]:
    """Let `CUDA` exist within a `with` block."""
    # Indexing and copies switch the current device, for which torch needs a guard of the device type. The
    # guard of the device "meta" does nothing.
    symbol = "_ZN3c104impl26device_guard_impl_registryE"
    guards = (ctypes.c_void_p * _TYPES).in_dll(ctypes.CDLL(str(LIBRARY)), symbol)
    before = guards[_CUDA_TYPE]
    guards[_CUDA_TYPE] = before or guards[_META_TYPE]
    try:
        with _FAKES, _OnlyDevice():
            yield
    finally:
        guards[_CUDA_TYPE] = before
