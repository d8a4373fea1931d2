"""The cost of the chat model's training steps: AR against MARS.

    python -m benchmarks.training [--model NAME] [--data DATA] [--compile] [--steps 4] [--rounds 3]
        [--batch-tokens 3072] [--output FILE]

Both objectives train on the same data and take turns step by step. MFU is the FLOPs of a step's matrix
products, 6 per weight and position, relative to the peak: that of a GPU's data sheet, or on a CPU the speed
of a large matrix product.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import torch

from benchmarks import report
from benchmarks.timing import take_turns
from mars_demo.evaluation import results
from mars_demo.models.device import multiplies_bfloat16
from mars_demo.models.load import load_checkpoint
from mars_demo.training.batch import Batch
from mars_demo.training.config import MarsConfig
from mars_demo.training.metrics import Metrics
from mars_demo.training.stepwise import stepwise
from mars_demo.training.trainer import MarsTrainer
from mars_demo.training.two_streams import IGNORE

FILE = "training-preloaded.json"
PEAK = {"H100": 989e12, "H200": 989e12, "A100": 312e12}  # dense bfloat16 FLOPs per second
ROWS = {"AR": "ar", "MARS": "mars"}


class Training:
    """A training that takes its steps on request, with the batches that it took."""

    def __init__(self, config: MarsConfig, model_name: str):
        checkpoint = load_checkpoint(model_name, dtype=torch.float32)
        self.trainer = MarsTrainer(checkpoint.model, config, processing_class=checkpoint.tokenizer)
        self.device, self.batches, self.sizes = checkpoint.device, [], []
        samples = self.trainer.get_batch_samples

        def keeping(*arguments):
            batches, counts = samples(*arguments)
            self.batches += batches
            return batches, counts

        self.trainer.get_batch_samples = keeping
        self._steps: Iterator[Metrics] = stepwise(self.trainer)

    def step(self, _) -> None:
        """Take a step, and note its positions, clean tokens and FLOPs."""
        next(self._steps)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        batches, self.batches[:] = [*self.batches], []
        positions = sum(int(batch.positions.real.sum()) for batch in batches)
        self.sizes.append(
            (positions, sum(batch.tokens for batch in batches), sum(map(self.flops, batches)))
        )

    def close(self) -> None:
        self._steps.close()

    def flops(self, batch: Batch) -> int:
        """Return the FLOPs of a step's matrix products: layers at positions, the head at targets."""
        model = self.trainer.model
        embeddings = {
            id(e.weight): e.weight for e in (model.get_input_embeddings(), model.get_output_embeddings())
        }
        layers = sum(p.numel() for p in model.parameters()) - sum(w.numel() for w in embeddings.values())
        head = model.get_output_embeddings().weight.numel()
        return 6 * (layers * int(batch.positions.real.sum()) + head * int((batch.targets != IGNORE).sum()))


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
    model: str, data: str, compile: bool, max_length: int, steps: int, batch_tokens: int, rounds: int,
    output: Path,
) -> None:  # fmt: skip
    settings = {"data": data, "batch_tokens": batch_tokens, "max_length": max_length, "compile": compile}
    settings |= {"save_strategy": "no", "max_steps": 10_000}
    with tempfile.TemporaryDirectory() as folder:
        trainings = {
            name: Training(MarsConfig(f"{folder}/{objective}", objective=objective, **settings), model)
            for name, objective in ROWS.items()
        }
        most = peak(next(iter(trainings.values())).device)
        for training in trainings.values():  # warm-up, with compilation for more than one shape
            training.step(0)
        timed = take_turns({name: one.step for name, one in trainings.items()}, range(steps), rounds)
        for training in trainings.values():
            training.close()
    rows = [row(name, one.seconds, trainings[name].sizes, steps) for name, one in timed.items()]
    record = {"model": model, "batch_tokens": batch_tokens, "steps": steps, "compile": compile}
    record |= {"preloaded": Path(os.environ.get("LD_PRELOAD", "")).name, "peak": most}
    results.write(output, results.machine(), record | {"rows": rows})


def row(name: str, seconds: list[float], sizes: list[tuple[int, int, int]], steps: int) -> dict:
    """Return a row with the seconds, positions, clean tokens and FLOPs of each round."""
    timed = sizes[len(sizes) - steps * len(seconds) :]  # without warm-up
    rounds = [list(map(sum, zip(*timed[i : i + steps]))) for i in range(0, len(timed), steps)]
    positions, tokens, flops = map(list, zip(*rounds))
    facts = {"objective": name, "seconds": seconds}
    return facts | {"positions": positions, "tokens": tokens, "flops": flops}


def rate(one: dict, name: str) -> float:
    """Return the median over the rounds of so much per second."""
    return median(size / seconds for size, seconds in zip(one[name], one["seconds"]))


def table(file: str | Path = FILE) -> str:
    measured = results.read(file)
    ar, mars = measured["rows"]
    rows = [
        {
            "step": one["objective"],
            "clean tokens per second": f"{rate(one, 'tokens'):.0f}",
            "MFU": f"{rate(one, 'flops') / measured['peak']:.0%}",
            "time of a step, relative to AR": results.ranged(results.ratios(ar["seconds"], one["seconds"])),
        }
        for one in (ar, mars)
    ]
    positions = f"a MARS step has {sum(mars['positions']) / sum(ar['positions']):.2f} times the positions"
    size = f"`{measured['model']}`, {measured['steps']} steps of {measured['batch_tokens']} clean positions"
    return report.shown(rows) + report.source(measured, size, positions, report.rounds(measured))


if __name__ == "__main__":
    report.run(
        measure, table, FILE,
        model="mars-smollm2-135m", data="skills", compile=False, max_length=320, steps=4,
        batch_tokens=3072, rounds=3,
    )  # fmt: skip
