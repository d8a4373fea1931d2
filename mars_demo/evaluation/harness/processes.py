"""Several processes, started by `accelerate launch`, that share the requests of an evaluation.

The harness would give each process some documents of its own. Then worked examples, which it samples one
document after the other, and resampled standard errors would depend on the number of processes. Here every
process prepares and grades all documents, and only the model's work is shared.
"""

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from torch import distributed

Item = TypeVar("Item")
Result = TypeVar("Result")


def count() -> int:
    """Return the number of processes."""
    return int(os.environ.get("WORLD_SIZE", 1))


def is_main() -> bool:
    """Return whether this process writes the results."""
    return int(os.environ.get("RANK", 0)) == 0


def join() -> str | None:
    """Connect with the other processes, if any, and return the device of this one.

    A single process has none of its own: None stands for the best device.
    """
    if count() == 1:
        return None
    # A process that is done waits for the others' answers.
    long = InitProcessGroupKwargs(timeout=timedelta(days=365))
    device = Accelerator(kwargs_handlers=[long]).device
    return "cpu" if device.type == "cpu" else str(device)


def shared(items: Sequence[Item], compute: Callable[[Sequence[Item]], Sequence[Result]]) -> list[Result]:
    """Return the results of all items, in their order; each process computes every n-th one.

    All processes call this with the same items.
    """
    if count() == 1:
        return list(compute(items))
    first, every = distributed.get_rank(), distributed.get_world_size()
    own, parts = items[first::every], [None] * every
    distributed.all_gather_object(parts, compute(own) if own else [])
    results: list = [None] * len(items)
    for process, part in enumerate(parts):
        results[process::every] = part
    return results
