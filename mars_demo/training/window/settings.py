"""The settings of both trainings: AR on a share of the time, then MARS."""

import os
from pathlib import Path
from typing import Any

from mars_demo.training.window.machine import OWN

AR, MARS = {"objective": "ar"}, {"objective": "mars", "block_size": 8, "slot_decay": 0.9}
AR_SHARE = 0.1  # of the time of learning
POSITIONS = (65_536, 32_768, 16_384)  # of a batch; the first that fits into memory


def settings(objective: dict[str, Any], reference: Path) -> dict[str, Any]:
    """Return the fields of a `MarsConfig` for one of `AR` and `MARS`, except its time and size."""
    return objective | {
        "data": f"skills+skills+skills+{OWN}",  # three answers to skills are about as long as an own one
        "reference": str(reference),
        "reference_weight": 6.0,
        "learning_rate": 2e-4,
        "muon_learning_rate": 6e-4,
        "lr_scheduler_kwargs": {"min_lr_rate": 0.02},
        "max_length": 400,
        "compile": True,
        "dataloader_num_workers": min(10, os.cpu_count() - 1),
        "save_strategy": "no",
    }
