"""The paper's comparison at this project's scale: its Tables 2, 3, 4 and 9 in our own numbers.

    python -m benchmarks.paper train --output runs [--seeds 3]      # a checkpoint per method and seed
    python -m benchmarks.paper evaluate --output runs [--limit 20]  # its answers
    python -m benchmarks.paper table --output runs                  # the table of the README

Every method goes on from `ar-tiny` for the same number of optimizer steps on the built-in worlds; the
compute-matched AR baseline takes twice as many, because a MARS step reads two streams. All three verbs go
on where a cut run was.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from dataclasses import asdict, replace
from pathlib import Path

from tqdm import tqdm

from mars_demo import checkpoints, tasks
from mars_demo.evaluation import answers, average, row
from mars_demo.tiny import STAGES
from mars_demo.training import Recipe, train

STEPS = 1000
_MARS = replace(STAGES["mars-tiny"], steps=STEPS, save_every=200)
_AR = replace(STAGES["ar-tiny"], steps=STEPS, save_every=200)
METHODS: dict[str, Recipe] = {
    "AR SFT": _AR,
    "AR SFT, compute-matched": replace(_AR, steps=2 * STEPS),
    "Block diffusion, B = 4": replace(_MARS, objective="block-diffusion", block_size=4),
    **{f"MARS, B = {b}": replace(_MARS, block_size=b) for b in (4, 8, 16)},
    **{f"MARS without SFT loss, B = {b}": replace(_MARS, block_size=b, sft_weight=0.0) for b in (4, 8, 16)},
}
SETTINGS = {
    "ar": {"mode": "ar"},
    "τ = 1": {"mode": "mars", "tau": 1.0},
    "τ = 0.95": {"mode": "mars", "tau": 0.95},
    "lossless": {"mode": "lossless"},
    "jacobi": {"mode": "jacobi"},
    "diffusion τ = 1": {"mode": "block-diffusion", "tau": 1.0},
    "diffusion τ = 0.95": {"mode": "block-diffusion", "tau": 0.95},
}
# τ = 1 is ordinary decoding, token for token (tests show it), so `ar` stands for it.
READ = {
    "ar": ("ar", "jacobi"),
    "mars": ("ar", "τ = 0.95", "lossless"),
    "block-diffusion": ("diffusion τ = 1", "diffusion τ = 0.95"),
}


def folder(output: Path, method: str, seed: int) -> Path:
    return output / f"{''.join(c if c.isalnum() else '-' for c in method.lower())}-{seed}"


def train_all(output: Path, seeds: int, only: str | None) -> None:
    for seed in range(1, seeds + 1):
        for method, recipe in METHODS.items():
            target = folder(output, method, seed)
            if (only and only != method) or (target / "config.json").exists():
                continue
            base = checkpoints.load("ar-tiny", device="cpu")
            bar = tqdm(total=recipe.steps, desc=target.name, mininterval=5)
            for metrics in train(
                base.model, base.tokenizer, replace(recipe, seed=100 + seed), target, resume=True
            ):
                bar.update(metrics.step - bar.n)
            bar.close()


def evaluate_all(output: Path, seeds: int, limit: int) -> None:
    for seed in range(1, seeds + 1):
        for method, recipe in METHODS.items():
            target = folder(output, method, seed)
            results = target / f"results-{limit}.json"
            if not (target / "config.json").exists() or results.exists():
                continue
            checkpoint = checkpoints.load(str(target), device="cpu")
            found = defaultdict(list)
            for task in tqdm(tasks.TASKS, desc=target.name):
                examples = tasks.held_out(task, limit)
                for name in READ[recipe.objective]:
                    settings = SETTINGS[name]
                    graded = list(answers(checkpoint, examples, **settings))
                    found[name].append(asdict(row(task, settings.get("tau"), graded)))
            results.write_text(json.dumps(found, indent=1) + "\n")


def table(output: Path, seeds: int, limit: int) -> None:
    from mars_demo.evaluation import Row

    print("| method | decoding | accuracy | tokens per forward | seeds |\n|---|---|---|---|---|")
    for method, recipe in METHODS.items():
        for name in READ[recipe.objective]:
            averages = []
            for seed in range(1, seeds + 1):
                results = folder(output, method, seed) / f"results-{limit}.json"
                if results.exists():
                    averages.append(average([Row(**r) for r in json.loads(results.read_text())[name]]))
            if averages:
                accuracy = spread([100 * a.accuracy for a in averages], 1)
                speed = spread([a.tokens_per_forward for a in averages], 2)
                print(f"| {method} | {name} | {accuracy} % | {speed} | {len(averages)} |")


def spread(values: list[float], digits: int) -> str:
    mean = statistics.mean(values)
    if len(values) == 1:
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {statistics.stdev(values):.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["train", "evaluate", "table"])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--only", choices=METHODS)
    arguments = parser.parse_args()
    if arguments.verb == "train":
        train_all(arguments.output, arguments.seeds, arguments.only)
    elif arguments.verb == "evaluate":
        evaluate_all(arguments.output, arguments.seeds, arguments.limit)
    else:
        table(arguments.output, arguments.seeds, arguments.limit)


if __name__ == "__main__":
    main()
