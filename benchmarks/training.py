"""The cost of a MARS training step relative to an AR step, with the paper's layout and this project's.

    python -m benchmarks.training [--model NAME] [--data DATA] [--objectives AR MARS] [--compile]
        [--steps 12] [--batch-tokens 4096] [--rounds 3] [--output FILE]

All rows train on the same conversations and take turns step by step. MFU is the FLOPs of a step's matrix
products, 6 per weight and position, relative to the peak: that of a GPU's data sheet, or on a CPU the speed
of a large matrix product. With one objective, the peak memory is written too.
"""

import argparse
import itertools
import os
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch
from mars_demo.training.loop import Trainer, make_batch
from mars_demo.training.recipe import Recipe

from benchmarks import tables
from benchmarks.timing import take_turns
from mars_demo.evaluation import results
from mars_demo.models.device import multiplies_bfloat16
from mars_demo.models.load import load_checkpoint
from mars_demo.training import corpus
from mars_demo.training.objective import IGNORE, Batch

FILE = "training.json"
PEAK = {"H100": 989e12, "H200": 989e12, "A100": 312e12}  # dense bfloat16 FLOPs per second
ROWS = {
    "AR": {"objective": "ar"},
    "MARS": {},
    "MARS, all copied (2L, the paper)": {"fixed_blocks": True, "whole_copy": True},
    "MARS with KL": {"kl_weight": 1.0},
    "block diffusion": {"objective": "block-diffusion"},
}
STEPS = {"plain": "as it is", "compiled": "compiled", "preloaded": "compiled, tcmalloc preloaded"}


class Training:
    """A training run, ready for its next step."""

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
        """Return the FLOPs of a step's matrix products: layers at positions, the head at targets."""
        model = self.trainer.model
        embeddings = {
            id(e.weight): e.weight for e in (model.get_input_embeddings(), model.get_output_embeddings())
        }
        layers = sum(p.numel() for p in model.parameters()) - sum(w.numel() for w in embeddings.values())
        head = model.get_output_embeddings().weight.numel()
        return 6 * (layers * int(batch.streams.real.sum()) + head * int((batch.targets != IGNORE).sum()))


def peak(device: torch.device) -> float:
    """Return the peak FLOPs per second of matrix products, in the dtype of training."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name()
        return next((flops for gpu, flops in PEAK.items() if gpu in name), float("nan"))
    dtype = torch.bfloat16 if multiplies_bfloat16(device.type) else torch.float32
    one, seconds = torch.ones(2048, 2048, dtype=dtype), []
    for _ in range(10):
        started = time.perf_counter()
        one @ one
        seconds.append(time.perf_counter() - started)
    return 2 * 2048**3 / median(seconds)


def measure(
    model: str, data: str, objectives: list[str], compile: bool, max_length: int, steps: int,
    batch_tokens: int, rounds: int, output: Path,
) -> None:  # fmt: skip
    recipe = Recipe(
        "mars", data=data, batch_tokens=batch_tokens, max_length=max_length, compile=compile, save_every=0
    )
    with tempfile.TemporaryDirectory() as folder:
        trainings = {
            name: Training(replace(recipe, **ROWS[name]), model, Path(folder) / str(number))
            for number, name in enumerate(objectives)
        }
        first = next(iter(trainings.values()))
        source = corpus.source(data, 0)
        stream = corpus.batches(source, first.trainer.tokenizer, batch_tokens, max_length, 0)
        numbered = list(enumerate(itertools.islice(stream, steps), start=1))
        most = peak(first.device)
        for training in trainings.values():  # warm-up, with compilation for more than one shape
            for step in numbered[1:3]:
                training.step(step)
        timed = take_turns({name: one.step for name, one in trainings.items()}, numbered, rounds)
        rows = [row(name, trainings[name], numbered, timed[name].seconds) for name in objectives]
    record = {"model": model, "batch_tokens": batch_tokens, "steps": len(numbered), "compile": compile}
    record |= {"preloaded": Path(os.environ.get("LD_PRELOAD", "")).name, "peak": most}
    record |= {"memory": memory(first.device) if len(rows) == 1 else None, "rows": rows}
    results.write(output, results.machine(), record)


def row(name: str, training: Training, steps: list[tuple[int, list]], seconds: list[float]) -> dict:
    batches = [training.batch(step) for step in steps]
    return {
        "objective": name,
        "seconds": seconds,
        "positions": sum(int(batch.streams.real.sum()) for batch in batches),
        "tokens": sum(len(one.ids) for _, conversations in steps for one in conversations),
        "flops": sum(map(training.flops, batches)),
    }


def memory(device: torch.device) -> int:
    """Return the peak memory of the process in bytes, on a GPU that of the device."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def table(part: str | Path = FILE) -> str:
    """Return the table of all objectives, or of the chat model's training for the part `chat`."""
    if part == "chat":
        return _chat()
    measured = results.read(part)
    base = measured["rows"][0]["seconds"]
    rows = [
        {
            "objective": one["objective"],
            "positions per step": one["positions"] // measured["steps"],
            "clean tokens per second": f"{one['tokens'] / median(one['seconds']):.0f}",
            "step time ÷ AR": results.ranged(results.ratios(base, one["seconds"])),
        }
        for one in measured["rows"]
    ]
    return tables.shown(rows) + tables.source(measured, _size(measured), tables.rounds(measured))


def _chat() -> str:
    rows = []
    for name, title in STEPS.items():
        measured = results.read(f"training-{name}.json")
        ar, mars = measured["rows"]
        cells = {"step": title}
        for one in (ar, mars):
            seconds = median(one["seconds"])
            mfu = one["flops"] / seconds / measured["peak"]
            cells[f"{one['objective']}, clean tokens per second"] = f"{one['tokens'] / seconds:.0f}"
            cells[f"{one['objective']}, MFU"] = f"{mfu:.0%}"
        rows.append(cells | {"MARS ÷ AR": results.ranged(results.ratios(ar["seconds"], mars["seconds"]))})
    memory = [results.read(f"training-memory-{name}.json")["memory"] / 2**30 for name in ("ar", "mars")]
    summary = (
        f"On the same conversations, a MARS step computes {mars['positions'] / ar['positions']:.2f} times "
        "the positions of an AR step, and nearly twice as many targets. The peak for MFU is the speed of a "
        f"large bfloat16 product in the same process, {measured['peak'] / 1e12:.1f} TFLOP/s. A training "
        f"process, compiled with tcmalloc, has a peak memory of {memory[0]:.1f} GiB for AR and "
        f"{memory[1]:.1f} GiB for MARS."
    )
    return f"{tables.shown(rows)}\n\n{summary}" + tables.source(
        measured, _size(measured), tables.rounds(measured)
    )


def _size(measured: dict) -> str:
    return f"`{measured['model']}`, {measured['steps']} steps of {measured['batch_tokens']} clean positions"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="ar-tiny")
    parser.add_argument("--data", default="tasks", help="as for `train`")
    parser.add_argument("--objectives", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--max-length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=12, help="steps per round")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=3)
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
