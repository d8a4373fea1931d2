"""The paper's Tables 2, 3, 4 and 9 at this project's scale.

    python -m benchmarks.paper --folder runs [--seeds 1 2 3] [--limit 20] [--output FILE]

Every method trains `ar-tiny` further for the same number of optimizer steps on the built-in tasks; the
compute-matched AR baseline takes twice as many, because a MARS step reads two streams. `runs` keeps a
checkpoint per method and seed, and its results. If interrupted, run the same command again. Processes with
different seeds can run at the same time; the last one writes the rows of all.
"""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from pandas import DataFrame, Series

from benchmarks import report
from mars_demo import tasks
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.sweep import evaluate
from mars_demo.models.load import load_checkpoint
from mars_demo.recipes.tiny import STAGES
from mars_demo.training.bar import train
from mars_demo.training.config import MarsConfig
from mars_demo.training.trainer import MarsTrainer

FILE = "paper.json"
OPTIONS = {"folder": str, "seeds": [1, 2, 3], "limit": 20}
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


def checkpoint_folder(folder: str, method: str, seed: int | str) -> Path:
    return Path(folder, f"{''.join(c if c.isalnum() else '-' for c in method.lower())}-{seed}")


def measure(folder: str, seeds: list[int], limit: int, output: Path) -> None:
    """Train and evaluate what `folder` lacks, then write the rows of all its checkpoints."""
    for seed, (method, settings) in product(seeds, METHODS.items()):
        target = checkpoint_folder(folder, method, seed)
        file = target / f"results-{limit}.json"
        if not (target / "config.json").exists():
            base = load_checkpoint("ar-tiny", device="cpu")
            config = MarsConfig(str(target), **settings | {"seed": 100 + seed})
            train(MarsTrainer(base.model, config, processing_class=base.tokenizer), resume=True)
        if not file.exists():
            checkpoint = load_checkpoint(str(target), device="cpu")
            rows = {}
            for name in READ[settings["objective"]]:
                request = REQUESTS[name]
                measured = evaluate(checkpoint, request, [request.tau], limit=limit)
                rows[name] = [point.row(task) for task, point in measured]
            file.write_text(json.dumps(rows, indent=1) + "\n")
    record = {"steps": STEPS, "limit": limit, "rows": list(rows_in(folder, limit))}
    report.save(output, results.machine(), record)


def rows_in(folder: str, limit: int) -> Iterator[dict]:
    """Yield a row per method, decoding, seed and task evaluated so far."""
    for method in METHODS:
        pattern = checkpoint_folder(folder, method, "[0-9]")
        for path in sorted(Path(folder).glob(f"{pattern.name}/results-{limit}.json")):
            for decoding, rows in json.loads(path.read_text()).items():
                origin = {"method": method, "decoding": decoding, "seed": int(path.parent.name[-1])}
                yield from (origin | row for row in rows)


def averaged(rows: DataFrame, *by: str) -> DataFrame:
    """Return accuracy in percent, averaged over the other columns, and all tokens over all forwards."""
    groups = rows.groupby([*by], sort=False)
    speeds = groups["tokens"].sum() / groups["forwards"].sum()
    return DataFrame({"accuracy": 100 * groups["accuracy"].mean(), "tokens_per_forward": speeds})


def spread(values: Series, digits: int) -> str:
    """Return the mean ± standard deviation as text."""
    return f"{values.mean():.{digits}f} ± {values.std():.{digits}f}"


def table(file: str | Path = FILE) -> str:
    """Return a row per method: accuracy and tokens per forward for each decoding."""
    measured, rows = results.read_results(file), {}
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


if __name__ == "__main__":
    report.run()
