"""The first call: whether training runs on the machine, how fast, and in which size. Weights are random."""

import gc
import json
import os
import platform
import shutil
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM

from mars_demo.models.export.save import save_checkpoint
from mars_demo.models.load import load_checkpoint, outline
from mars_demo.recipes import smollm
from mars_demo.recipes.window.machine import PLAIN, PROOF, WINDOW
from mars_demo.recipes.window.train import SIZES, config
from mars_demo.training.metrics import logged, tokens_per_second
from mars_demo.training.trainer import MarsTrainer

ON_CPU = ({"packed": 512},)
MINUTES = 0.25  # of steps, after the first one
RANDOM, TRIED = WINDOW / "random", WINDOW / "tried"


def prove(output: Path) -> None:
    """Print and write speed and memory, and the settings to use.

    Raises:
        ValueError: if training fails in every size.
    """
    result = _facts() | {"failed": []}
    described = outline(str(PLAIN))
    model = AutoModelForCausalLM.from_config(described.model.config, trust_remote_code=False)
    save_checkpoint(model, described.tokenizer, RANDOM, block_size=None)
    for size in SIZES if torch.cuda.is_available() else ON_CPU:
        try:
            result |= {"speed": speed(size), "use": size}
            break
        except Exception as error:  # out of memory, as a rule
            result["failed"].append(size | {"error": f"{type(error).__name__}: {str(error)[:300]}"})
        gc.collect()
        torch.cuda.empty_cache()
    print(json.dumps(result), flush=True)
    PROOF.write_text(json.dumps(result), encoding="utf-8")
    output.mkdir(parents=True, exist_ok=True)
    shutil.copy(PROOF, output)
    if "use" not in result:
        raise ValueError("training does not run here")


def speed(size: dict[str, Any]) -> dict[str, Any]:
    """Train for a short time with batches of this size; return tokens per second and memory."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    base = load_checkpoint(str(RANDOM), device="cpu", dtype=torch.float32)
    short = config(smollm.MARS, TRIED, RANDOM, minutes=MINUTES, **size)
    MarsTrainer(base.model, short, processing_class=base.tokenizer).train()
    steps = logged(TRIED)
    return {
        "steps": len(steps),
        "first_step_seconds": steps[0].seconds,
        "seconds_per_step": (steps[-1].seconds - steps[0].seconds) / max(1, len(steps) - 1),
        "tokens_per_second": tokens_per_second(steps),
        "gib": torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None,
    }


def _facts() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "cpus": os.cpu_count(),
    }
