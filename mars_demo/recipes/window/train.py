"""Training by the seconds that are left: AR, then MARS, and the bundle in 8 bits as pieces."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from mars_demo.models.export import q8_0
from mars_demo.models.load import load_checkpoint
from mars_demo.recipes import smollm
from mars_demo.recipes.window import pieces
from mars_demo.recipes.window.machine import AR_TRAINED, BASE, BUNDLE, OWN, PIECES, PROOF, STARTED, TRAINED
from mars_demo.training import metrics
from mars_demo.training.clock import Clock
from mars_demo.training.config import MarsConfig
from mars_demo.training.trainer import MarsTrainer

# In seconds.
ARRIVING = 20  # from the reading of the time that is left to the start of the command
SAVING = 40  # from the end of learning to that of the call: checkpoint, 8 bits, pieces, their return
LATER = 140  # the later calls, and a reserve
CALL = 595  # the longest call

# Positions of a batch, and attention: the first that fits into memory, or that runs at all.
SIZES = (
    {"packed": 65_536},
    {"packed": 32_768},
    {"packed": 16_384},
    {"packed": 65_536, "attention": "sdpa"},
    {"packed": 16_384, "attention": "sdpa"},
)
WORKERS = 10


def config(recipe: dict[str, Any], output: Path, reference: Path, **more: Any) -> MarsConfig:
    """Return the settings of a training, `smollm.AR` or `smollm.MARS`, which saves no states."""
    own = {
        "data": smollm.DATA.format(chat=OWN),
        "reference": str(reference),
        "dataloader_num_workers": min(WORKERS, os.cpu_count() - 1),
        "save_strategy": "no",
    }
    return MarsConfig(str(output), **recipe | own | more)


class Until(TrainerCallback):
    """A callback that sets the clock of a training to its end, the first step included.

    end: a time of `time.monotonic`.
    """

    def __init__(self, clock: Clock, end: float):
        self.clock, self.end = clock, end

    def on_train_begin(self, args, state, control, **_) -> None:
        self.clock.total = max(1.0, self.end - time.monotonic())
        self.clock.start()


def train(left: float, output: Path) -> None:
    """Train as long as the seconds that are `left` allow, and return the first group of pieces.

    Raises:
        ValueError: if no time is left for learning.
    """
    if (seconds := seconds_of_learning(left)) <= 0:
        raise ValueError(
            f"{left:g} seconds are left, but saving and the later calls need {-seconds:g} more."
        )
    end = STARTED + seconds
    use = json.loads(PROOF.read_text("utf-8"))["use"] if PROOF.exists() else SIZES[0]
    base = load_checkpoint(str(BASE), device="cpu", dtype=torch.float32)

    def trainer(recipe: dict, folder: Path, share: float) -> MarsTrainer:
        minutes = max(1.0, share * (end - time.monotonic())) / 60
        timed = config(recipe, folder, BASE, minutes=minutes, **use)
        return MarsTrainer(base.model, timed, processing_class=base.tokenizer)

    ar = trainer(smollm.AR, AR_TRAINED, smollm.AR_SHARE)
    ar.train()
    mars = trainer(smollm.MARS, TRAINED, 1.0)
    mars.add_callback(Until(mars.clock, end))
    mars.train()
    mars.save_model()
    smollm.write_record(TRAINED, mars.args, [smollm.summary(one.args) for one in (ar, mars)])
    _return(output)


def seconds_of_learning(left: float) -> float:
    """Return after how many seconds a command must stop to learn; `left` was read before the call."""
    return min(left - ARRIVING - LATER, CALL) - SAVING


def _return(output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    for folder in (AR_TRAINED, TRAINED):
        shutil.copy(folder / metrics.FILE, output / f"{folder.name}.jsonl")
    q8_0.write(load_checkpoint(str(TRAINED), "cpu", torch.float32), BUNDLE)
    pieces.split(BUNDLE, PIECES)
    pieces.deliver(PIECES, 0, output)
