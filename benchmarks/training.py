"""What a MARS step costs beside an AR step, with the paper's layout and with this project's.

    python -m benchmarks.training [--model ar-tiny] [--steps 12] [--batch-tokens 4096]

All rows see the same conversations; the figures are medians over steps of one run. On a GPU the share of
its peak arithmetic (model FLOPs utilisation) is printed too, 6 FLOPs per parameter and position.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from dataclasses import replace

import torch
from accelerate import Accelerator

from mars_demo import checkpoints, corpus
from mars_demo.objective import Objective
from mars_demo.training import Recipe, make_batch, make_optimizers

PEAK = {"H100": 989e12, "H200": 989e12, "A100": 312e12}  # dense bfloat16 FLOPs per second
ROWS = {
    "AR": {"objective": "ar"},
    "MARS, answers copied (L + R)": {},
    "MARS, all copied (2L, the paper)": {"fixed_blocks": True, "whole_copy": True},
    "MARS with KL": {"kl_weight": 1.0},
    "block diffusion": {"objective": "block-diffusion"},
}


def median_step(recipe: Recipe, model_name: str, steps: int) -> tuple[float, int, int]:
    """Seconds per step, clean tokens and computed positions per step."""
    accelerator = Accelerator(mixed_precision="bf16")
    checkpoint = checkpoints.load(model_name, device=accelerator.device.type, dtype=torch.float32)
    model, tokenizer = checkpoint.model.train(), checkpoint.tokenizer
    checkpoints.ensure_mask(model, tokenizer)
    if accelerator.device.type == "cuda":
        model.set_attn_implementation("flex_attention")
    optimizers = make_optimizers(model, recipe)
    objective = accelerator.prepare(Objective(model, recipe.sft_weight, recipe.kl_weight))
    stream = corpus.batches(corpus.source(recipe.data, 0), tokenizer, recipe.batch_tokens, 512, 0)
    times, tokens, positions = [], 0, 0
    for step, conversations in enumerate(itertools.islice(stream, steps + 3)):
        started = time.perf_counter()
        batch = make_batch(conversations, recipe, tokenizer, step, 0).to(accelerator.device)
        accelerator.backward(objective(batch)["loss"])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.device.type == "cuda":
            torch.cuda.synchronize()
        if step >= 3:  # the first ones warm up
            times.append(time.perf_counter() - started)
            tokens += sum(len(c.ids) for c in conversations)
            positions += batch.tokens
    return statistics.median(times), tokens // steps, positions // steps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="ar-tiny")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    arguments = parser.parse_args()
    base = Recipe("mars", batch_tokens=arguments.batch_tokens)
    model = checkpoints.load(arguments.model, device="cpu").model
    parameters = sum(p.numel() for p in model.parameters()) - model.get_input_embeddings().weight.numel()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    peak = next((flops for name, flops in PEAK.items() if name in device), None)
    print(f"{arguments.model} on {device}, batches of {arguments.batch_tokens} clean positions\n")
    print(
        "| objective | positions per step | tokens per second | step time : AR |"
        + (" MFU |" if peak else "")
    )
    print("|---|---|---|---|" + ("---|" if peak else ""))
    reference = None
    for name, changed in ROWS.items():
        seconds, tokens, positions = median_step(replace(base, **changed), arguments.model, arguments.steps)
        reference = reference or seconds
        line = f"| {name} | {positions} | {tokens / seconds:.0f} | {seconds / reference:.2f} |"
        print(line + (f" {6 * parameters * positions / seconds / peak:.1%} |" if peak else ""), flush=True)


if __name__ == "__main__":
    main()
