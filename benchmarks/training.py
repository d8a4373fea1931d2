"""What a MARS step costs compared with an AR step, with the paper's layout and with this project's.

    python -m benchmarks.training [--model NAME] [--data DATA] [--objectives AR MARS] [--compile]
        [--steps 12] [--batch-tokens 4096] [--rounds 3] [--output FILE]

All rows see the same conversations and take turns step by step. The share of the peak is that of the matrix
products of a step, 6 FLOPs per weight and position, in what the machine can do: a GPU's data sheet, or on a
processor what a large product of this machine reaches. With one objective the most memory that the process
held is printed too.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.turns import take_turns
from mars_demo.evaluation import results
from mars_demo.models.device import multiplies_bfloat16
from mars_demo.models.load import load_checkpoint
from mars_demo.training import corpus
from mars_demo.training.loop import Trainer, make_batch
from mars_demo.training.objective import IGNORE, Batch
from mars_demo.training.recipe import Recipe

PEAK = {"H100": 989e12, "H200": 989e12, "A100": 312e12}  # dense bfloat16 FLOPs per second
ROWS = {
    "AR": {"objective": "ar"},
    "MARS": {},
    "MARS, all copied (2L, the paper)": {"fixed_blocks": True, "whole_copy": True},
    "MARS with KL": {"kl_weight": 1.0},
    "block diffusion": {"objective": "block-diffusion"},
}


class Training:
    """A run of a recipe, ready for the next step."""

    def __init__(self, recipe: Recipe, model_name: str, folder: Path):
        checkpoint = load_checkpoint(model_name, dtype=torch.float32)
        self.trainer = Trainer(checkpoint.model, checkpoint.tokenizer, recipe, folder)
        self.device = checkpoint.device

    def step(self, numbered: tuple[int, list]) -> None:
        number, conversations = numbered
        self.trainer.step(number, [conversations], 1.0, 0.0)
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def batch(self, numbered: tuple[int, list]) -> Batch:
        number, conversations = numbered
        return make_batch(conversations, self.trainer.recipe, self.trainer.tokenizer, number, 0)

    def flops(self, batch: Batch) -> int:
        """Of the matrix products of a step: the layers at every position, the head at every target."""
        model = self.trainer.model
        embeddings = {
            id(e.weight): e.weight for e in (model.get_input_embeddings(), model.get_output_embeddings())
        }
        layers = sum(p.numel() for p in model.parameters()) - sum(w.numel() for w in embeddings.values())
        head = model.get_output_embeddings().weight.numel()
        return 6 * (layers * batch.positions + head * int((batch.targets != IGNORE).sum()))


def peak(device: torch.device) -> float:
    """FLOPs per second of bfloat16 products, or of float32 ones where training uses these."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name()
        return next((flops for known, flops in PEAK.items() if known in name), float("nan"))
    dtype = torch.bfloat16 if multiplies_bfloat16(device.type) else torch.float32
    one, seconds = torch.ones(2048, 2048, dtype=dtype), []
    for _ in range(10):
        started = time.perf_counter()
        one @ one
        seconds.append(time.perf_counter() - started)
    return 2 * 2048**3 / statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="ar-tiny")
    parser.add_argument("--data", default="tasks", help="as of `train`")
    parser.add_argument("--objectives", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--max-length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=12, help="of a round")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    base = Recipe(
        "mars", data=arguments.data, batch_tokens=arguments.batch_tokens, max_length=arguments.max_length,
        compile=arguments.compile, save_every=0,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        trainings = {
            name: Training(replace(base, **ROWS[name]), arguments.model, Path(folder) / str(number))
            for number, name in enumerate(arguments.objectives)
        }
        measure(trainings, base, arguments)


def measure(trainings: dict[str, Training], recipe: Recipe, arguments: argparse.Namespace) -> None:
    any_one = next(iter(trainings.values()))
    stream = corpus.batches(
        corpus.source(recipe.data, 0), any_one.trainer.tokenizer, recipe.batch_tokens, recipe.max_length, 0
    )
    steps = list(enumerate(itertools.islice(stream, arguments.steps), start=1))
    most = peak(any_one.device)
    for training in trainings.values():  # compiled layers are compiled for more than one shape
        for numbered in steps[1:3]:
            training.step(numbered)
    timed = take_turns({name: one.step for name, one in trainings.items()}, steps, arguments.rounds)
    first = next(iter(timed.values()))
    machine = results.machine()
    tokens = sum(len(c.ids) for _, conversations in steps for c in conversations)
    print(f"{arguments.model}, {machine}, {most / 1e12:.2f} TFLOP/s at most\n")
    print("| objective | positions per step | tokens per second | step time ÷ AR | share of the peak |")
    print("|---|---|---|---|---|")
    found = []
    for name, one in timed.items():
        batches = [trainings[name].batch(numbered) for numbered in steps]
        positions = sum(batch.positions for batch in batches)
        seconds, flops = statistics.median(one.seconds), sum(map(trainings[name].flops, batches))
        slower = results.ranged(results.ratios(first.seconds, one.seconds))
        share = f"{flops / seconds / most:.0%}"
        print(
            f"| {name} | {positions // len(steps)} | {tokens / seconds:.0f} | {slower} | {share} |",
            flush=True,
        )
        found.append(
            {
                "objective": name,
                "seconds": one.seconds,
                "positions": positions,
                "tokens": tokens,
                "flops": flops,
            }
        )
    memory = None
    if len(found) == 1:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if any_one.device.type == "cuda":
            memory = torch.cuda.max_memory_allocated()
        print(f"\nmemory: {memory / 2**30:.1f} GiB at most")
    if arguments.output:
        record = {"model": arguments.model, "batch_tokens": recipe.batch_tokens, "steps": len(steps)}
        preloaded = os.environ.get("LD_PRELOAD", "")
        record |= {
            "compile": recipe.compile,
            "preloaded": Path(preloaded).name,
            "peak": most,
            "memory": memory,
        }
        results.write(arguments.output, machine, record | {"rows": found})


if __name__ == "__main__":
    main()
