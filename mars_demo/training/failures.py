"""Errors of a training about memory, disk space and compilers, in one sentence each."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator

from safetensors import SafetensorError

from mars_demo.models.memory import is_short

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # disk full, over quota, file too large
FULL_WORDS = (  # messages of safetensors and torch, which set no errno
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "PytorchStreamWriter failed writing file",
    "file write failed",
)


@contextlib.contextmanager
def one_sentence(step: Callable[[], int], batch: int) -> Iterator[None]:
    """Turn errors about memory or disk space into a ValueError with one sentence.

    step: returns the current step. batch: the positions of a batch.
    """
    try:
        yield
    except (MemoryError, OSError, RuntimeError, SafetensorError) as error:
        if is_short(error):
            raise ValueError(
                f"Out of memory at step {step()}. Batches of less than {batch} tokens, gradient "
                "checkpointing or LoRA may help."
            ) from error
        if getattr(error, "errno", None) in FULL or any(words in str(error) for words in FULL_WORDS):
            raise ValueError(
                f"The disk is full at step {step()}. Free some space, and resume from the last saved state "
                "if there is one."
            ) from error
        raise


def check_compiler() -> None:
    """Check that torch can find a C++ compiler.

    Raises:
        ValueError: if it cannot.
    """
    if not has_compiler("CXX", "g++", "clang++", "cl"):
        compiler = os.environ.get("CXX", "g++ or clang++ or cl")
        raise ValueError(f"Compiling needs {compiler}. Install it, or do not compile.")


def has_compiler(variable: str, *names: str) -> bool:
    """Return whether the compiler of an environment variable, or else one of `names`, is installed."""
    return any(map(shutil.which, [os.environ[variable]] if variable in os.environ else names))
