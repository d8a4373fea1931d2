"""The metrics of training steps, and their file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

FILE = "metrics.jsonl"
LOSSES = ("clean", "noisy", "reference")


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """The metrics of one optimizer step.

    Losses are nats per token, `seconds` the time since this process began training, `tokens` the clean
    tokens seen since step 1, without padding. `slots` has, for each slot of the window, the mean loss and
    the accuracy on this step's targets. `steps` is None in a training by the clock, and so are the parts of
    the loss that the objective does not compute.
    """

    step: int
    steps: int | None = None
    loss: float
    learning_rate: float
    grad_norm: float
    tokens: int
    seconds: float
    slots: list[tuple[float, float]]
    clean: float | None = None
    noisy: float | None = None
    reference: float | None = None

    def record(self) -> dict:
        """Return the JSON form."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def losses(self) -> dict[str, float]:
        """The parts of the loss."""
        return {name: value for name, value in self.record().items() if name in LOSSES}

    def scalars(self) -> dict[str, float]:
        """Return what trackers draw: the losses, and the accuracy of each slot."""
        others = ("step", "steps", "slots")
        numbers = {name: value for name, value in self.record().items() if name not in others}
        return numbers | {f"accuracy_slot_{i}": right for i, (_, right) in enumerate(self.slots, start=1)}


def copied(values: dict[str, Tensor]) -> Callable[[], dict[str, Tensor]]:
    """Start to copy tensors that a device may still compute; return a function that waits for them."""
    flat = torch.cat([value.detach().float().flatten() for value in values.values()])
    copies = torch.empty_like(flat, device="cpu", pin_memory=flat.is_cuda)
    copies.copy_(flat, non_blocking=True)
    event = torch.cuda.Event() if flat.is_cuda else None
    if event:
        event.record()

    def read() -> dict[str, Tensor]:
        if event:
            event.synchronize()
        parts = copies.split([value.numel() for value in values.values()])
        return {name: part.view_as(value) for (name, value), part in zip(values.items(), parts)}

    return read


def truncate(path: Path, step: int) -> None:
    """Truncate a metrics file to the step that its run resumes from."""
    if path.exists():
        lines = path.read_bytes().splitlines(keepends=True)
        os.truncate(path, sum(map(len, lines[:step])))


def append(path: Path, metrics: Metrics) -> None:
    """Append a line that is on the disk before the state of its step."""
    with path.open("a") as file:
        file.write(json.dumps(metrics.record()) + "\n")
        file.flush()
        os.fsync(file.fileno())


def logged(output: Path) -> list[Metrics]:
    """Return the metrics of the steps in an output folder."""
    path = output / FILE
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [Metrics(**json.loads(line)) for line in lines]


def duration(steps: Sequence[Metrics]) -> float:
    """Return the seconds of a training from its first step on; its clock restarts where it was resumed."""
    times = [0.0, *(step.seconds for step in steps)]
    return sum(now - before if now > before else now for before, now in pairwise(times))


def tokens_per_second(steps: Sequence[Metrics]) -> float:
    """Return the clean tokens per second after the first step, which may compile."""
    first = steps[0]
    return (steps[-1].tokens - first.tokens) / max(1e-9, duration(steps) - first.seconds)
