"""The settings of the window's trainings: those of the recipe, for the machine."""

import os
from pathlib import Path
from typing import Any

from mars_demo.recipes import smollm
from mars_demo.recipes.window.machine import OWN
from mars_demo.training.config import MarsConfig

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
    return MarsConfig(
        str(output),
        **recipe
        | {
            "data": smollm.DATA.format(chat=OWN),
            "reference": str(reference),
            "dataloader_num_workers": min(WORKERS, os.cpu_count() - 1),
            "save_strategy": "no",
        }
        | more,
    )
