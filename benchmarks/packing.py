"""What fewer bits per weight cost: size, load time, agreement with the unpacked model, tokens per forward.

    python -m benchmarks.packing --model DIR/mars-smollm2-135m --held-out DIR/held-out.jsonl [--limit 32]
        [--data DIR/train.jsonl]

Packs the model by every recipe of `packing.RECIPES`, with `--data` calibrated on that, and prints a
Markdown table. All is decoded in bfloat16.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import islice
from pathlib import Path

import torch

from mars_demo import calibration, checkpoints, distillation, packing
from mars_demo.batching import decode_batch
from mars_demo.checkpoints import Checkpoint
from mars_demo.fidelity import Reference

MAX_NEW_TOKENS = 128


def speed(checkpoint: Checkpoint, prompts: list[str]) -> float:
    """Tokens per forward at τ = 0.95."""
    settings = {"mode": "mars", "tau": 0.95, "max_new_tokens": MAX_NEW_TOKENS}
    runs = decode_batch(checkpoint, prompts, size=16, **settings).finish().runs
    return sum(run.tokens for run in runs) / sum(run.forwards for run in runs)


def relative_error(packed: Checkpoint, model: Checkpoint) -> float:
    """Of all weights together: the length of the difference by that of the weights."""
    found, wanted = packed.model.state_dict(), model.model.state_dict()
    difference = sum((found[name] - weight).float().square().sum() for name, weight in wanted.items())
    return (difference / sum(weight.float().square().sum() for weight in wanted.values())).sqrt().item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="an unpacked folder")
    parser.add_argument("--held-out", required=True)
    parser.add_argument("--limit", type=int, default=32)
    parser.add_argument("--recipes", nargs="+", choices=packing.RECIPES, default=list(packing.RECIPES))
    parser.add_argument("--data", help="round for what layers compute on this, not to the nearest value")
    arguments = parser.parse_args()
    load = {"device": "cpu", "dtype": torch.bfloat16}
    model = checkpoints.load(arguments.model, **load)
    prompts = list(islice(distillation.prompts_from(arguments.held_out), arguments.limit))
    moments = None
    if arguments.data:
        exact = checkpoints.load(arguments.model, device="cpu", dtype=torch.float32)
        moments = calibration.second_moments(exact.model, calibration.inputs(exact, arguments.data))
    reference = Reference(model, prompts, 16, MAX_NEW_TOKENS)
    print("| packed as | MB | error of the weights | same choice | same prefix | τ = 0.95 | load |")
    print("|---|---|---|---|---|---|---|")
    size = (Path(arguments.model) / "model.safetensors").stat().st_size / 1e6
    print(f"| bfloat16 | {size:.1f} | 0 | 100 % | 100 % | {speed(model, prompts):.2f} | |", flush=True)
    for name in arguments.recipes:
        with tempfile.TemporaryDirectory() as folder:
            source, recipe = Path(arguments.model), packing.RECIPES[name]
            file = packing.pack(model.model, source, Path(folder), recipe, moments)
            started = time.perf_counter()
            packed = checkpoints.load(folder, **load)
            seconds = time.perf_counter() - started
            runs = decode_batch(packed, prompts, size=16, mode="ar", max_new_tokens=MAX_NEW_TOKENS).finish()
            print(
                f"| {name} | {file.stat().st_size / 1e6:.1f} | {relative_error(packed, model):.2%} "
                f"| {reference.agreement(packed):.1%} | {reference.prefix(runs.runs):.1%} "
                f"| {speed(packed, prompts):.2f} | {seconds:.1f} s |",
                flush=True,
            )


if __name__ == "__main__":
    main()
