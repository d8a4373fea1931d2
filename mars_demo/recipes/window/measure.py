"""Accuracy and speed of the trained bundle on held-out prompts of skills, in three modes."""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from mars_demo import tasks
from mars_demo.core.acceptance import TAU
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.evaluation import accuracy
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.recipes.window import pieces
from mars_demo.recipes.window.machine import BUNDLE, PIECES

MODES = ("ar", "mars", "lossless")
PROMPTS = 4  # per skill
SECONDS = 15.0  # per mode; the prompts that are left are skipped


def measure(output: Path) -> None:
    """Return the second group of pieces, then print and write a row per mode."""
    pieces.deliver(PIECES, 1, output)
    checkpoint = load_checkpoint(str(BUNDLE))
    examples = tasks.mixed(PROMPTS, tasks.named("skills"))
    for mode in MODES:
        request = Request(mode=mode, tau=TAU)
        decode(checkpoint, examples[0].prompt, request).finish()  # captures CUDA graphs
        row = accuracy.row("skills", TAU, list(_answers(checkpoint, examples, request)))
        line = json.dumps({"mode": mode} | asdict(row))
        print(line, flush=True)
        with (output / "measure.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def _answers(checkpoint: Checkpoint, examples: list[tasks.Example], request: Request) -> Iterator[tuple]:
    """Yield examples with their runs until the time is over."""
    started = time.monotonic()
    for graded in accuracy.answers(checkpoint, examples, request):
        yield graded
        if time.monotonic() - started > SECONDS:
            return
