"""What fewer bits per weight cost: size, load time, agreement with the unpacked model, tokens per forward.

    python -m benchmarks.packing --model DIR/mars-smollm2-135m --held-out DIR/held-out.jsonl [--limit 32]
        [--data DIR/train.jsonl] [--dtype float32] [--output FILE]

Packs the model by the recipes of `packing.RECIPES`, with every weight rounded to the nearest value and,
with `--data`, also calibrated on that, and prints a Markdown table.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import islice
from pathlib import Path

import torch

from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.fidelity import Reference
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.quantization import gptq, packing
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.training import distillation

MAX_NEW_TOKENS = 128


def speed(checkpoint: Checkpoint, prompts: list[str]) -> float:
    """Tokens per forward at τ = 0.95."""
    request = Request("mars", 0.95, max_new_tokens=MAX_NEW_TOKENS)
    runs = decode_batch(checkpoint, prompts, request, size=16).finish().runs
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
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16", help="decoded in")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    dtype = getattr(torch, arguments.dtype)
    model = load_checkpoint(arguments.model, device="cpu", dtype=dtype)
    prompts = list(islice(distillation.prompts_from(arguments.held_out), arguments.limit))
    ways = {"nearest": None}
    if arguments.data:
        exact = load_checkpoint(arguments.model, device="cpu", dtype=torch.float32)
        ways["calibrated"] = gptq.second_moments(exact.model, gptq.inputs(exact, arguments.data))
    reference = Reference(model, prompts, 16, MAX_NEW_TOKENS)
    print(
        "| packed as | rounding | MB | error of the weights | same choice | nats | same prefix | τ = 0.95 "
        "| load |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    size = (Path(arguments.model) / "model.safetensors").stat().st_size / 1e6
    unpacked = {"megabytes": size, "tokens_per_forward": speed(model, prompts)}
    print(f"| bfloat16 | | {size:.1f} | | | | | {unpacked['tokens_per_forward']:.2f} | |", flush=True)
    found = []
    for name in arguments.recipes:
        for rounding, moments in ways.items():
            row = measure(model, Path(arguments.model), packing.RECIPES[name], moments, prompts, reference)
            found.append({"recipe": name, "rounding": rounding} | row)
            print(
                f"| {name} | {rounding} | {row['megabytes']:.1f} | {row['error']:.2%} "
                f"| {row['agreement']:.1%} | {row['divergence']:.3f} | {row['prefix']:.1%} "
                f"| {row['tokens_per_forward']:.2f} "
                f"| {row['load_seconds']:.1f} s |",
                flush=True,
            )
            if arguments.output:
                record = {"prompts": len(prompts), "unpacked": unpacked, "rows": found}
                results.write(arguments.output, results.machine(model), record)


def measure(model: Checkpoint, source: Path, recipe: dict, moments, prompts, reference: Reference) -> dict:
    """Pack, load again, and compare with the unpacked model."""
    with tempfile.TemporaryDirectory() as folder:
        file = packing.pack(model.model, source, Path(folder), recipe, moments)
        started = time.perf_counter()
        packed = load_checkpoint(folder, device="cpu", dtype=model.model.dtype)
        seconds = time.perf_counter() - started
        request = Request("ar", max_new_tokens=MAX_NEW_TOKENS)
        runs = decode_batch(packed, prompts, request, size=16).finish().runs
        return {
            "megabytes": file.stat().st_size / 1e6,
            "error": relative_error(packed, model),
            "agreement": reference.agreement(packed),
            "divergence": reference.divergence(packed),
            "prefix": reference.prefix(runs),
            "tokens_per_forward": speed(packed, prompts),
            "load_seconds": seconds,
        }


if __name__ == "__main__":
    main()
