"""The paper's Tables 2, 3, 4 and 9 at this project's scale, and the options of training.

    python -m benchmarks.paper train --output runs [--seeds 1 2 3]    # a checkpoint per method and seed
    python -m benchmarks.paper evaluate --output runs [--limit 20]    # its answers
    python -m benchmarks.paper table --output runs                    # its result file and tables

Every method trains `ar-tiny` further for the same number of optimizer steps on the built-in tasks; the
compute-matched AR baseline takes twice as many, because a MARS step reads two streams. If interrupted,
run the same command again. The answers of `ar-tiny` are written first; after that, processes with
different seeds can run at the same time.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from statistics import mean

from benchmarks import tables
from mars_demo import tasks
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.accuracy import MAX_NEW_TOKENS, row
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.names import BASE, TINY
from mars_demo.progress import progress
from mars_demo.recipes.tiny import STAGES
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.training import distillation
from mars_demo.training.bar import train
from mars_demo.training.config import MarsConfig
from mars_demo.training.trainer import MarsTrainer

FILE = "paper.json"
STEPS = 300
SELF = "its own answers"  # replaced by the path of their file
CONVERSATIONS = 6000
_MARS = STAGES[TINY] | {"objective": "mars", "max_steps": STEPS}
_AR = _MARS | {"objective": "ar"}
METHODS: dict[str, dict] = {  # the settings of `MarsConfig`
    "AR SFT": _AR,
    "AR SFT, compute-matched": _AR | {"max_steps": 2 * STEPS},
    "Block diffusion, B = 4": _MARS | {"objective": "block-diffusion", "block_size": 4},
    **{f"MARS, B = {b}": _MARS | {"block_size": b} for b in (4, 8, 16)},
    **{f"MARS without SFT loss, B = {b}": _MARS | {"block_size": b, "sft_weight": 0.0} for b in (4, 8, 16)},
}
OPTIONS: dict[str, dict] = {
    "MARS, B = 8": METHODS["MARS, B = 8"],
    "fixed blocks": _MARS | {"fixed_blocks": True},
    "slot decay 0.8": _MARS | {"slot_decay": 0.8},
    "self-distilled answers": _MARS | {"data": SELF},
    "self-distilled answers, slot decay 0.8": _MARS | {"data": SELF, "slot_decay": 0.8},
}
ALL = METHODS | OPTIONS
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


def write_answers(path: Path) -> None:
    """Write the answers of `ar-tiny` to prompts of the training split."""
    model = load_checkpoint(BASE, device="cpu")
    prompts = distillation.prompts_from("tasks", seed=100)
    written = distillation.write(path, model, prompts, CONVERSATIONS, batch=64)
    for _ in progress(written, CONVERSATIONS, path.name, "answer", reached=int):
        pass


def train_all(output: Path, seeds: list[int], only: str | None) -> None:
    own = output / "self.jsonl"
    write_answers(own)
    for seed in seeds:
        for method, settings in ALL.items():
            target = folder(output, method, seed)
            if (only and only != method) or (target / "config.json").exists():
                continue
            if settings.get("data") == SELF:
                settings = settings | {"data": str(own)}
            base = load_checkpoint(BASE, device="cpu")
            config = MarsConfig(str(target), **settings | {"seed": 100 + seed})
            train(MarsTrainer(base.model, config, processing_class=base.tokenizer), resume=True)


def evaluate_all(output: Path, seeds: list[int], limit: int, only: str | None) -> None:
    for seed in seeds:
        for method, settings in ALL.items():
            target = folder(output, method, seed)
            written = target / f"results-{limit}.json"
            trained = (target / "config.json").exists()
            if (only and only != method) or not trained or written.exists():
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
    for method, settings in ALL.items():
        for path in sorted(output.glob(f"{folder(Path(), method, 0).name[:-1]}[0-9]/results-{limit}.json")):
            by_mode = json.loads(path.read_text())
            for decoding in READ[settings["objective"]]:
                for measured in by_mode[decoding]:
                    origin = {"method": method, "decoding": decoding, "seed": int(path.parent.name[-1])}
                    yield origin | measured


def measure(output: Path, limit: int) -> None:
    """Write the rows of the checkpoints in `output`, and keep the rows of methods without one.

    The rows do not depend on the machine.
    """
    written, earlier = list(rows(output, limit)), results.read(FILE)
    new = {row["method"] for row in written}
    written += [row for row in earlier["rows"] if row["method"] not in new]
    written.sort(key=lambda row: list(ALL).index(row["method"]))
    machines = " and ".join(dict.fromkeys([*earlier["machine"].split(" and "), results.machine()]))
    results.write(results.FOLDER / FILE, machines, {"steps": STEPS, "limit": limit, "rows": written})


def table(part: str = "methods") -> str:
    """Return the table of methods, or of the training options for the part `options`."""
    return _summary("option", OPTIONS) if part == "options" else _methods()


def _methods() -> str:
    measured = results.read(FILE)
    prompts = measured["limit"] * len(tasks.TASKS)
    ar = results.averages(_groups(METHODS)["AR SFT", "ar"], "seed").values()
    share = mean(seed.accuracy for seed in ar)
    error = 100 * (share * (1 - share) / prompts) ** 0.5
    seeds = len({row["seed"] for row in measured["rows"]})
    return (
        f"Each of the {seeds} seeds answers the same {prompts} held-out prompts. ± is the standard "
        f"deviation over the seeds, without the sampling error over prompts, about {error:.1f} "
        f"points (one standard error of a share of {share:.0%} in {prompts}). Windows have B + 1 slots; "
        "the paper's have B.\n\n" + _summary("method", METHODS)
    )


def _groups(methods: Collection[str]) -> dict[tuple[str, str], list[dict]]:
    """Return the rows of these methods by method and decoding."""
    groups = results.grouped(results.read(FILE)["rows"])
    return {key: group for key, group in groups.items() if key[0] in methods}


def _summary(title: str, methods: Collection[str]) -> str:
    """Return a table with a row per method: accuracy and tokens per forward for each decoding."""
    measured, rows = results.read(FILE), {}
    for (method, decoding), group in _groups(methods).items():
        seeds = results.averages(group, "seed").values()
        accuracy = results.spread([100 * seed.accuracy for seed in seeds], 1)
        speed = results.spread([seed.tokens_per_forward for seed in seeds], 2)
        row = rows.setdefault(method, {title: method, "seeds": len(seeds)})
        row[COLUMNS.get(decoding, decoding)] = f"{accuracy} %, {speed}"
    size = f"{measured['steps']} steps, {measured['limit']} held-out prompts per task, greedy"
    return tables.shown(list(rows.values())) + tables.source(measured, size)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["train", "evaluate", "table"])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--only", choices=ALL)
    arguments = parser.parse_args()
    if arguments.verb == "train":
        train_all(arguments.output, arguments.seeds, arguments.only)
    elif arguments.verb == "evaluate":
        evaluate_all(arguments.output, arguments.seeds, arguments.limit, arguments.only)
    else:
        measure(arguments.output, arguments.limit)
        print(*map(table, ("methods", "options")), sep="\n\n")


if __name__ == "__main__":
    main()
