"""The metrics of training steps, and their file."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

TERMS = ("clean", "noisy", "reference")  # of the loss, if they are computed


@dataclass(frozen=True)
class Metrics:
    """The metrics of one optimizer step.

    Losses are nats per token, `seconds` the time since this process began training, `tokens` the clean
    tokens seen since step 1, without padding. `slots` has, for each slot of the window, the mean loss and
    the accuracy on this step's targets. `steps` is None in a training by the clock.
    """

    step: int
    steps: int | None
    loss: float
    learning_rate: float
    grad_norm: float
    tokens: int
    seconds: float
    slots: list[tuple[float, float]]
    clean: float | None = None
    noisy: float | None = None
    reference: float | None = None

    @property
    def losses(self) -> dict[str, float]:
        """The losses of this step: those of clean, noisy and reference that are computed."""
        named = {name: getattr(self, name) for name in TERMS}
        return {name: loss for name, loss in named.items() if loss is not None}

    def scalars(self) -> dict[str, float]:
        """Return what trackers draw: the losses, and the accuracy of each slot."""
        accuracies = {f"accuracy_slot_{i}": right for i, (_, right) in enumerate(self.slots, start=1)}
        names = ("loss", "learning_rate", "grad_norm", "tokens", "seconds")
        return {name: getattr(self, name) for name in names} | self.losses | accuracies

    def line(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if value is not None})


class Readings:
    """The results of a step that are still being computed on a device, copied without waiting.

    values: tensors by name.
    known: what the host knows already.
    """

    def __init__(self, values: dict[str, Tensor], known: dict):
        self.known, self._event = known, None
        self._shapes = {name: value.shape for name, value in values.items()}
        flat = torch.cat([value.detach().float().flatten() for value in values.values()])
        self._flat = torch.empty_like(flat, device="cpu", pin_memory=flat.is_cuda)
        self._flat.copy_(flat, non_blocking=True)
        if flat.is_cuda:
            self._event = torch.cuda.Event()
            self._event.record()

    def read(self) -> dict[str, Tensor]:
        """Return the values, after waiting for them."""
        if self._event:
            self._event.synchronize()
        parts = self._flat.split([shape.numel() for shape in self._shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self._shapes.items(), parts)}


class MetricsFile:
    """The metrics file of a run, truncated to the step it resumes from.

    A line is on the disk before the state of its step.
    """

    def __init__(self, path: Path, step: int):
        self.path = path
        kept = path.read_bytes().splitlines(keepends=True)[:step] if path.exists() else []
        unfinished = path.with_name(f"unfinished-{path.name}")
        unfinished.write_bytes(b"".join(kept))
        os.replace(unfinished, path)

    def add(self, metrics: Metrics) -> None:
        with self.path.open("a") as file:
            file.write(metrics.line() + "\n")
            file.flush()
            os.fsync(file.fileno())


def logged(output: Path) -> int:
    """Return the number of steps in the metrics file of an earlier run."""
    path = output / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0
