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

from mars_demo.export.save import save_checkpoint
from mars_demo.models.load import load_checkpoint, outline
from mars_demo.training.config import MarsConfig
from mars_demo.training.trainer import MarsTrainer
from mars_demo.training.window.equality import equality
from mars_demo.training.window.machine import PLAIN, PROOF, WINDOW
from mars_demo.training.window.settings import MARS, settings

POSITIONS = (65_536, 32_768, 16_384)  # of a batch, the first that fits into memory
ON_CPU = (1024,)
MINUTES = 0.25  # of steps, after the first one
RANDOM, TRIED = WINDOW / "random", WINDOW / "tried"


def prove(output: Path) -> None:
    """Print and write speed and memory, the settings to use, and the equality of FlexAttention."""
    result = _facts() | {"out_of_memory": []}
    described = outline(str(PLAIN))
    model = AutoModelForCausalLM.from_config(described.model.config, trust_remote_code=False)
    save_checkpoint(model, described.tokenizer, RANDOM, block_size=None)
    for packed in POSITIONS if torch.cuda.is_available() else ON_CPU:
        try:
            result |= {"use": {"packed": packed}, "speed": speed(packed)}
            break
        except ValueError as error:
            if "memory" not in str(error):
                raise
            result["out_of_memory"].append(packed)
        gc.collect()
        torch.cuda.empty_cache()
    _write(result, output)  # in case that the rest takes too long
    _write(result | {"equality": equality(RANDOM)}, output)


def speed(packed: int) -> dict[str, Any]:
    """Train for a short time with so many positions per batch; return tokens per second and memory."""
    base = load_checkpoint(str(RANDOM), device="cpu", dtype=torch.float32)
    config = MarsConfig(str(TRIED), minutes=MINUTES, packed=packed, **settings(MARS, RANDOM))
    MarsTrainer(base.model, config, processing_class=base.tokenizer).train()
    steps = [json.loads(line) for line in (TRIED / "metrics.jsonl").read_text("utf-8").splitlines()]
    first, last = steps[0], steps[-1]
    seconds = last["seconds"] - first["seconds"]
    memory = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None
    return {
        "steps": len(steps),
        "first_step_seconds": first["seconds"],
        "seconds_per_step": seconds / max(1, len(steps) - 1),
        "tokens_per_second": (last["tokens"] - first["tokens"]) / max(seconds, 1e-9),
        "gib": memory,
    }


def _facts() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "cpus": os.cpu_count(),
    }


def _write(result: dict[str, Any], output: Path) -> None:
    print(json.dumps(result), flush=True)
    PROOF.write_text(json.dumps(result), encoding="utf-8")
    output.mkdir(parents=True, exist_ok=True)
    shutil.copy(PROOF, output)
