"""What a MARS step costs compared with an AR step, with the paper's layout and with this project's.

    python -m benchmarks.training [--steps 12] [--batch-tokens 4096] [--rounds 3] [--output FILE]

All rows see the same conversations and take turns step by step. On a GPU the share of its peak arithmetic
(model FLOPs utilisation) is printed too, 6 FLOPs per parameter and position.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from dataclasses import replace
from pathlib import Path

import torch
from accelerate import Accelerator

from benchmarks.turns import take_turns
from mars_demo.evaluation import results
from mars_demo.models.load import load_checkpoint
from mars_demo.models.mask_token import ensure_mask
from mars_demo.training import corpus
from mars_demo.training.loop import make_batch
from mars_demo.training.objective import Objective
from mars_demo.training.optimizers import make_optimizers
from mars_demo.training.recipe import Recipe

PEAK = {"H100": 989e12, "H200": 989e12, "A100": 312e12}  # dense bfloat16 FLOPs per second
ROWS = {
    "AR": {"objective": "ar"},
    "MARS, answers copied (L + R)": {},
    "MARS, all copied (2L, the paper)": {"fixed_blocks": True, "whole_copy": True},
    "MARS with KL": {"kl_weight": 1.0},
    "block diffusion": {"objective": "block-diffusion"},
}


class Training:
    """A model, its optimizers and its objective, ready for the next step."""

    def __init__(self, recipe: Recipe, model_name: str):
        self.recipe = recipe
        self.accelerator = Accelerator(mixed_precision="bf16")
        self.device = self.accelerator.device
        checkpoint = load_checkpoint(model_name, device=self.device.type, dtype=torch.float32)
        self.model, self.tokenizer = checkpoint.model.train(), checkpoint.tokenizer
        ensure_mask(self.model, self.tokenizer)
        if self.device.type == "cuda":
            self.model.set_attn_implementation("flex_attention")
        self.optimizers = make_optimizers(self.model, recipe)
        self.objective = self.accelerator.prepare(
            Objective(self.model, recipe.sft_weight, recipe.kl_weight)
        )

    def step(self, numbered: tuple[int, list]) -> int:
        """One step on these conversations; the positions that it computed."""
        number, conversations = numbered
        batch = make_batch(conversations, self.recipe, self.tokenizer, number, 0).to(self.device)
        self.accelerator.backward(self.objective(batch)["loss"])
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return batch.tokens


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="ar-tiny")
    parser.add_argument("--steps", type=int, default=12, help="of a round")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    base = Recipe("mars", batch_tokens=arguments.batch_tokens)
    rows = {name: Training(replace(base, **changed), arguments.model) for name, changed in ROWS.items()}
    model, tokenizer = rows["AR"].model, rows["AR"].tokenizer
    stream = corpus.batches(corpus.source(base.data, 0), tokenizer, arguments.batch_tokens, 512, 0)
    steps = list(enumerate(itertools.islice(stream, arguments.steps)))
    timed = take_turns({name: training.step for name, training in rows.items()}, steps, arguments.rounds)
    parameters = sum(p.numel() for p in model.parameters()) - model.get_input_embeddings().weight.numel()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    peak = next((flops for name, flops in PEAK.items() if name in device), None)
    machine = results.machine()
    tokens = sum(len(c.ids) for _, conversations in steps for c in conversations)
    print(f"{arguments.model}, {machine}, batches of {arguments.batch_tokens} clean positions\n")
    print(
        "| objective | positions per step | tokens per second | step time ÷ AR |"
        + (" MFU |" if peak else "")
    )
    print("|---|---|---|---|" + ("---|" if peak else ""))
    found = []
    for name, one in timed.items():
        seconds, positions = statistics.median(one.seconds), sum(one.found)
        slower = results.ranged(results.ratios(timed["AR"].seconds, one.seconds))
        line = f"| {name} | {positions // len(steps)} | {tokens / seconds:.0f} | {slower} |"
        print(line + (f" {6 * parameters * positions / seconds / peak:.1%} |" if peak else ""), flush=True)
        found.append({"objective": name, "seconds": one.seconds, "positions": positions, "tokens": tokens})
    if arguments.output:
        record = {"model": arguments.model, "batch_tokens": arguments.batch_tokens, "steps": len(steps)}
        results.write(arguments.output, machine, record | {"rows": found})


if __name__ == "__main__":
    main()
