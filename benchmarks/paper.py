"""The paper's Tables 2, 3, 4 and 9 at this project's scale.

    python -m benchmarks.paper train --output runs [--seeds 1 2 3]    # a checkpoint per method and seed
    python -m benchmarks.paper evaluate --output runs [--limit 20]    # its answers
    python -m benchmarks.paper table --output runs                    # its result file and table

Every method trains `ar-tiny` further for the same number of optimizer steps on the built-in tasks; the
compute-matched AR baseline takes twice as many, because a MARS step reads two streams. If interrupted,
run the same command again. Processes with different seeds can run at the same time.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from pandas import DataFrame, Series

from benchmarks import report
from mars_demo import tasks
from mars_demo.core.progress import progress
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.accuracy import MAX_NEW_TOKENS, row
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.recipes.tiny import STAGES
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.training.bar import train
from mars_demo.training.config import MarsConfig
from mars_demo.training.trainer import MarsTrainer

FILE = "paper.json"
STEPS = 300
_MARS = STAGES["mars-tiny"] | {"objective": "mars", "max_steps": STEPS}
_AR = _MARS | {"objective": "ar"}
METHODS: dict[str, dict] = {  # the settings of `MarsConfig`
    "AR SFT": _AR,
    "AR SFT, compute-matched": _AR | {"max_steps": 2 * STEPS},
    "Block diffusion, B = 4": _MARS | {"objective": "block-diffusion", "block_size": 4},
    **{f"MARS, B = {b}": _MARS | {"block_size": b} for b in (4, 8, 16)},
    **{f"MARS without SFT loss, B = {b}": _MARS | {"block_size": b, "sft_weight": 0.0} for b in (4, 8, 16)},
}
REQUESTS = {
    "ar": Request("ar"),
    "τ = 0.95": Request("mars", 0.95),
    "lossless": Request("lossless"),
    "jacobi": Request("jacobi"),
    "diffusion τ = 1": Request("block-diffusion", 1.0),
    "diffusion τ = 0.95": Request("block-diffusion", 0.95),
}
COLUMNS = {
    "ar": "one token per forward",
    "diffusion τ = 1": "one token per forward",
    "diffusion τ = 0.95": "τ = 0.95",
}
# The modes to evaluate by objective. At τ = 1, MARS equals AR token for token, so `ar` stands for it.
READ = {
    "ar": ("ar", "jacobi"),
    "mars": ("ar", "τ = 0.95", "lossless"),
    "block-diffusion": ("diffusion τ = 1", "diffusion τ = 0.95"),
}


def folder(output: Path, method: str, seed: int) -> Path:
    return output / f"{''.join(c if c.isalnum() else '-' for c in method.lower())}-{seed}"


def train_all(output: Path, seeds: list[int]) -> None:
    for seed in seeds:
        for method, settings in METHODS.items():
            target = folder(output, method, seed)
            if (target / "config.json").exists():
                continue
            base = load_checkpoint("ar-tiny", device="cpu")
            config = MarsConfig(str(target), **settings | {"seed": 100 + seed})
            train(MarsTrainer(base.model, config, processing_class=base.tokenizer), resume=True)


def evaluate_all(output: Path, seeds: list[int], limit: int) -> None:
    for seed in seeds:
        for method, settings in METHODS.items():
            target = folder(output, method, seed)
            written = target / f"results-{limit}.json"
            if written.exists() or not (target / "config.json").exists():
                continue
            checkpoint = load_checkpoint(str(target), device="cpu")
            by_mode = defaultdict(list)
            for task in progress(tasks.TASKS, len(tasks.TASKS), target.name, "task"):
                examples = tasks.held_out(task, limit)
                for name in READ[settings["objective"]]:
                    request = REQUESTS[name]
                    graded = answers(checkpoint, examples, request)
                    by_mode[name].append(asdict(row(task, request.acceptance.threshold(), graded)))
            written.write_text(json.dumps(by_mode, indent=1) + "\n")


def answers(checkpoint: Checkpoint, examples: list[tasks.Example], request: Request) -> list[tuple]:
    """Return each example with its run, decoded in one batch, with the same tokens as alone."""
    # Fitted to the window of a single sequence: in a batch, lossless would draft less.
    request = replace(request, max_new_tokens=MAX_NEW_TOKENS).fitted(checkpoint)
    prompts = [example.prompt for example in examples]
    done = decode_batch(checkpoint, prompts, request, size=len(prompts)).finish()
    return list(zip(examples, done.runs))


def rows(output: Path, limit: int) -> Iterator[dict]:
    """Yield a row per method, decoding, seed and task evaluated so far."""
    for method, settings in METHODS.items():
        for path in sorted(output.glob(f"{folder(Path(), method, 0).name[:-1]}[0-9]/results-{limit}.json")):
            by_mode = json.loads(path.read_text())
            for decoding in READ[settings["objective"]]:
                for measured in by_mode[decoding]:
                    origin = {"method": method, "decoding": decoding, "seed": int(path.parent.name[-1])}
                    yield origin | measured


def measure(output: Path, limit: int) -> None:
    """Write the rows of the checkpoints in `output`."""
    record = {"steps": STEPS, "limit": limit, "rows": list(rows(output, limit))}
    results.write(results.FOLDER / FILE, results.machine(), record)


def averaged(rows: DataFrame, *by: str) -> DataFrame:
    """Return accuracy in percent, averaged over the other columns, and all tokens over all forwards."""
    groups = rows.groupby([*by], sort=False)
    speeds = groups["tokens"].sum() / groups["forwards"].sum()
    return DataFrame({"accuracy": 100 * groups["accuracy"].mean(), "tokens_per_forward": speeds})


def spread(values: Series, digits: int) -> str:
    """Return the mean ± standard deviation as text."""
    return f"{values.mean():.{digits}f} ± {values.std():.{digits}f}"


def table() -> str:
    """Return a row per method: accuracy and tokens per forward for each decoding."""
    measured, rows = results.read(FILE), {}
    seeds = averaged(DataFrame(measured["rows"]), "method", "decoding", "seed")
    prompts = measured["limit"] * len(tasks.TASKS)
    share = seeds.query("method == 'AR SFT' and decoding == 'ar'")["accuracy"].mean()
    error = (share * (100 - share) / prompts) ** 0.5
    for (method, decoding), own in seeds.groupby(["method", "decoding"], sort=False):
        if decoding != "jacobi":
            row = rows.setdefault(method, {"method": method})
            cell = f"{spread(own['accuracy'], 1)}, {own['tokens_per_forward'].mean():.2f}"
            row[COLUMNS.get(decoding, decoding)] = cell
    size = f"{measured['steps']} steps, {measured['limit']} held-out prompts per task, greedy"
    return (
        f"Accuracy in percent and tokens per forward: mean and deviation of {len(own)} seeds on the same "
        f"{prompts} held-out prompts, whose sampling error is about {error:.1f} points.\n\n"
        + report.shown(list(rows.values()))
        + report.source(measured, size)
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["train", "evaluate", "table"])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--limit", type=int, default=20)
    arguments = parser.parse_args()
    if arguments.verb == "train":
        train_all(arguments.output, arguments.seeds)
    elif arguments.verb == "evaluate":
        evaluate_all(arguments.output, arguments.seeds, arguments.limit)
    else:
        measure(arguments.output, arguments.limit)
        print(table())


if __name__ == "__main__":
    main()
