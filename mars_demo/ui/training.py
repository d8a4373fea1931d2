"""A visitor's training: the session, and the training itself."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import gradio as gr
import torch

from mars_demo.core.limits import LIMITS
from mars_demo.core.scheduler import LONG
from mars_demo.evaluation import training_record
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.training.config import MarsConfig
from mars_demo.ui.hosting.gpu import on_gpu, seconds
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.hosting.shared_state import Number
from mars_demo.ui.knobs import Knobs

STEP, LOOKS = 4, 1000  # the duration of a step, and of all answers between steps, in forwards
MINUTE = 60  # seconds
EVERY = 0.5  # seconds between two updates of the page, and between two checks while paused


class Session(Knobs):
    """The settings that a visitor may change while their training runs, and its result."""

    paused = Number(False)
    pace = Number(1.0)

    def __init__(self):
        super().__init__()
        self.trained: str | None = None
        self.data = ""  # of that training
        self.left = False

    def leave(self) -> None:
        self.left = self.stopped = True


def fresh(name: str) -> Checkpoint:
    """Return a private float32 copy of a served checkpoint for training.

    Raises:
        ValueError: if it is not served or too large, or as `load_checkpoint`.
    """
    if name not in (names := MODELS.names()):
        raise ValueError(f"Unknown base {name!r}. Choose from {', '.join(names)}.")
    MODELS.load(name)
    member = MODELS.member(name)
    if member.facts.parameters > LIMITS.parameters * 1_000_000:
        raise ValueError(
            f"{name} has {member.facts.parameters / 1e6:.0f} million parameters. "
            f"At most {LIMITS.parameters} million can be trained here."
        )
    try:
        loaded = load_checkpoint(member.source, MODELS.device, torch.float32)
    except ValueError as error:
        raise ValueError(str(error).replace(member.source, name)) from error
    return replace(loaded, name=name)  # not a path of this machine


def _longest(base: str, settings: dict, *_) -> int:
    return min(seconds(settings["max_steps"] * STEP + LOOKS), MINUTE * LIMITS.train_minutes)


@on_gpu(_longest, LONG)
def watched(
    base: str, settings: dict, prompt: str, session: Session, folder: Path, name: str
) -> Iterator[tuple]:
    """Train; yield the growing record and, if it changes, the label of the pause button."""
    checkpoint, config = fresh(base), MarsConfig(str(folder), **settings)
    lines = training_record.watch(
        checkpoint, config, prompt, name, pace=lambda: session.pace, stopped=lambda: session.stopped
    )
    text, shown = "", 0.0
    with closing(lines):
        for line in lines:
            text += line
            if session.paused:  # checked between steps only
                yield text, "Continue"
                while session.paused and not session.stopped:
                    time.sleep(EVERY)
                    yield gr.skip(), "Continue"  # a visitor's departure is only noticed between results
                yield gr.skip(), "Pause"
            elif time.monotonic() - shown > EVERY:
                yield text, None
                shown = time.monotonic()
    yield text, None
