"""The paper's Tables 2, 3, 4 and 9 at this project's scale.

    python -m benchmarks.paper --folder runs [--seeds 1 2 3] [--limit 20] [--output FILE]

Every method trains `ar-tiny` further for the same number of optimizer steps on the built-in tasks; the
compute-matched AR baseline takes twice as many, because a MARS step reads two streams. `runs` keeps a
checkpoint per method and seed, and its results. If interrupted, run the same command again. Processes with
different seeds can run at the same time; the last one writes the rows of all.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

from pandas import DataFrame, Series

from benchmarks import report
from mars_demo import tasks
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.paper_tables import PAPER
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
BLOCKS = (4, 8, 16)
CHANGES = {  # what is compared with what, by the paper's names
    "MARS against AR SFT": ("MARS, B = {}", "AR SFT"),
    "without SFT loss against with it": ("MARS, B = {}, without SFT loss", "MARS, B = {}"),
    "τ = 0.95 against one token": ("MARS, B = {}, τ = 0.95", "MARS, B = {}"),
    "block diffusion, B = 4, against AR SFT": ("Block Diffusion, B = {}", "AR SFT"),
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


def in_paper(scale: str) -> dict[str, float]:
    """Return the paper's average accuracies of a scale, in percent, by method."""
    rows = [*PAPER["table2_one_token_mode"], *PAPER["table3_sft_loss"]]
    named = {row["name"]: row["Avg"] for row in rows}
    named |= {f"{row['name']}, τ = 0.95": row["accuracy"]["Avg"] for row in PAPER["table4_multi_token"]}
    return {name.removeprefix(f"{scale} "): accuracy for name, accuracy in named.items()}


def here(measured: Mapping) -> dict[str, float]:
    """Return our average accuracies in percent by the paper's names of methods."""
    named = {}
    for (method, decoding), row in averaged(DataFrame(measured["rows"]), "method", "decoding").iterrows():
        method = re.sub("(.*) without SFT loss(.*)", r"\1\2, without SFT loss", method)
        method = method.replace("diffusion", "Diffusion")
        at_once = "" if COLUMNS.get(decoding) == COLUMNS["ar"] else f", {decoding}"
        named[method + at_once] = row["accuracy"]
    return named


def changes(measured: Mapping) -> list[dict[str, str]]:
    """Return a row per comparison: changes of accuracy in points by block size, here and in the paper."""
    places = {"here": here(measured), "paper, 0.5B": in_paper("0.5B"), "paper, 7B": in_paper("7B")}
    rows = []
    for title, names in CHANGES.items():
        row = {"points for B = 4, 8, 16": title}
        for place, accuracy in places.items():
            pairs = [[accuracy.get(name.format(size)) for name in names] for size in BLOCKS]
            row[place] = (
                ", ".join(f"{new - old:+.1f}" for new, old in pairs if None not in (new, old)) or "–"
            )
        rows.append(row)
    return rows


def table(file: str | Path = FILE) -> str:
    """Return a row per method: accuracy and tokens per forward for each decoding; and what changes it."""
    measured, rows = results.read_results(file), {}
    seeds = averaged(DataFrame(measured["rows"]), "method", "decoding", "seed")
    prompts = measured["limit"] * len(tasks.TASKS)
    share = seeds.query("method == 'AR SFT' and decoding == 'ar'")["accuracy"].mean()
    error = (share * (100 - share) / prompts) ** 0.5
    for (method, decoding), own in seeds.groupby(["method", "decoding"], sort=False):
        if decoding != "jacobi" and "without SFT loss" not in method:  # its changes are below
            row = rows.setdefault(method, {"method": method})
            cell = f"{spread(own['accuracy'], 1)}, {own['tokens_per_forward'].mean():.2f}"
            row[COLUMNS.get(decoding, decoding)] = cell
    size = f"{measured['steps']} steps, {measured['limit']} held-out prompts per task, greedy"
    return (
        f"Accuracy in percent and tokens per forward: mean and deviation of {len(own)} seeds on the same "
        f"{prompts} held-out prompts, whose sampling error is about {error:.1f} points.\n\n"
        + report.shown(list(rows.values()))
        + report.source(measured, size)
        + "\n\n"
        + report.shown(changes(measured))
    )


if __name__ == "__main__":
    report.run()
