"""A training to watch: its curves, answers to held-out prompts, and one answer as it improves.

`assets/trainings/index.json` lists the recorded ones; each has a file of JSON lines next to it.
`python -m mars_demo record trainings` records them again.
"""

from __future__ import annotations

import itertools
import json
import secrets
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from mars_demo.assets import ASSETS, read_json
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.limits import LIMITS

if TYPE_CHECKING:  # the page names trainings before it loads torch
    from mars_demo.evaluation.accuracy import Row
    from mars_demo.models.checkpoint import Checkpoint
    from mars_demo.tasks import Example
    from mars_demo.training.recipe import Recipe

SCHEMA = 1
FOLDER = ASSETS / "trainings"
PRESETS = read_json("presets.json")
DATA = {
    "word problems": "tasks:word-problems",
    "all worlds": "tasks",
    "tables and lists": "tasks:tables,sorting,reversing",
    "notes and stories": "tasks:notes,stories",
    "code": "tasks:functions",
}
BATCH_TOKENS = 1024
MUON = 2  # times the learning rate, for the hidden matrices

PROBE_TASKS = ("word-problems", "units", "letters", "notes", "functions", "tables")  # of all worlds
PROBE_PROMPTS = 6
PROBES, ANSWERS = 4, 16  # how often held-out prompts are answered, and how often the watched one
TAU = 0.95
MAX_NEW_TOKENS = 128
TIMED = 3  # runs of the watched prompt per answer
ALTERNATIVES = 2  # kept for each accepted slot of the watched answer


def index() -> list[dict[str, Any]]:
    """Return the recorded trainings in the order shown: `id`, `title`, and how they were made."""
    return json.loads((FOLDER / "index.json").read_text("utf-8"))


def recording(id: str) -> str:
    """Return a recorded training as JSON lines, as `watch` made them.

    Raises:
        ValueError: if there is no recording with that id.
    """
    if id not in [entry["id"] for entry in index()]:
        raise ValueError(f"Unknown recorded training {id!r}.")
    return (FOLDER / f"{id}.jsonl").read_text("utf-8")


def recipe(
    objective: str,
    block_size: float,
    sft_weight: float,
    data: str,
    steps: float,
    learning_rate: float,
    seed: int,
) -> Recipe:
    """Return a training that is short enough to watch, on one of `DATA`. It is not resumed, so it saves no
    states.

    Raises:
        ValueError: if a setting is out of range.
    """
    from mars_demo.training.recipe import Recipe

    if not 1 <= steps <= LIMITS.train_steps:
        raise ValueError(f"The number of steps must be from 1 to {LIMITS.train_steps}, not {steps:g}.")
    if not 0 < learning_rate <= 0.1:
        raise ValueError(f"The learning rate must be above 0 and at most 0.1, not {learning_rate:g}.")
    if data not in DATA:
        raise ValueError(f"Unknown data set {data!r}. Choose from {', '.join(DATA)}.")
    return Recipe(
        objective=objective,
        block_size=int(block_size),
        sft_weight=sft_weight,
        data=DATA[data],
        steps=int(steps),
        batch_tokens=BATCH_TOKENS,
        learning_rate=learning_rate,
        muon_learning_rate=MUON * learning_rate,
        warmup=0.1,
        seed=seed,
        save_every=0,
    )


def watch(
    checkpoint: Checkpoint,
    recipe: Recipe,
    prompt: str,
    output: Path,
    name: str,
    pace: Callable[[], float] = lambda: 1.0,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[str]:
    """Train `checkpoint` in place, save it in `output`, and yield the record of that, line by line.

    The first line has the `recipe`, the `base`, the `machine`, the `prompt` and in `before` the base's own
    answer to it, the lines of a `trace.Run`. A line per step follows, a `training.Metrics`, and in between
    lines with `answer`, the step after which the prompt was answered again, and the `record` of that; and
    lines with `probe`, the step after which held-out prompts were answered: their `accuracy`, their
    `tokens_per_forward`, and the `prompts` themselves. A last line says `done` and after how many `steps`.

    name: of the checkpoint that comes out of it.
    pace: read at every step; multiplies the learning rates.
    stopped: asked after every step; what has been learned until then is saved.

    Raises:
        ValueError: if the prompt cannot be answered, or as `training.train`.
    """
    from mars_demo.evaluation import results
    from mars_demo.export.save import save_checkpoint
    from mars_demo.training.loop import train

    yield _line(
        {
            "training": secrets.token_hex(4),
            "schema": SCHEMA,
            "base": checkpoint.name,
            "machine": results.machine(checkpoint),
            "recipe": asdict(recipe),
            "prompt": prompt,
            "before": _record(_answer(checkpoint, prompt, "ar")),
        }
    )

    def look(probe: bool) -> Iterator[str]:
        grown = as_trained(checkpoint, recipe, name)
        if probe:
            yield _line(_short({"probe": step} | _probe(grown, recipe.data)))
        yield _line({"answer": step, "record": _record(_answer(grown, prompt, grown.modes[0]))})

    every = {"probe": max(1, recipe.steps // PROBES), "answer": max(1, recipe.steps // ANSWERS)}
    run = train(checkpoint.model, checkpoint.tokenizer, recipe, output, pace=pace)
    answered = step = 0
    try:
        for metrics in run:
            step = metrics.step
            due = {kind for kind in every if step in (1, recipe.steps) or step % every[kind] == 0}
            yield _line(_short(json.loads(metrics.line())))
            if due:
                checkpoint.model.eval()
                yield from look("probe" in due)
                checkpoint.model.train()
                answered = step
            if stopped() and step < recipe.steps:  # after the last one the loop ends by itself and saves
                break
    finally:  # also when the visitor has left
        run.close()
        checkpoint.model.eval()
    if step < recipe.steps:
        block_size = None if recipe.objective == "ar" else recipe.block_size
        save_checkpoint(checkpoint.model, checkpoint.tokenizer, output, block_size, recipe.objective)
    if answered < step:
        yield from look(probe=False)
    yield _line({"done": True, "steps": step})


def as_trained(checkpoint: Checkpoint, recipe: Recipe, name: str) -> Checkpoint:
    """Return the model as it is now, as the checkpoint it will be saved as."""
    if recipe.objective == "ar":
        return replace(checkpoint, name=name, block_size=None, objective="ar")
    mask_id = checkpoint.tokenizer.mask_token_id
    return replace(
        checkpoint, name=name, mask_id=mask_id, block_size=recipe.block_size, objective=recipe.objective
    )


def measuring(
    checkpoint: Checkpoint, data: str, tau: float, prompts: int, mode: str | None = None
) -> Iterator[Row | None]:
    """Average over about `prompts` held-out prompts of the tasks in `data`: yields None after each answer
    and the average at the end."""
    graded = []
    for pair in _answers(checkpoint, data, tau, prompts, mode):
        graded.append(pair)
        yield None
    yield _average(graded, tau)


def measured(data: str, prompts: int) -> int:
    """Return how many answers `measuring` makes."""
    names = _names(data)
    return len(names) * (prompts // len(names))


def _names(data: str) -> list[str]:
    return data.partition(":")[2].split(",") if ":" in data else [*PROBE_TASKS]


def _answers(
    checkpoint: Checkpoint, data: str, tau: float, prompts: int, mode: str | None = None
) -> Iterator[tuple[Example, Run]]:
    from mars_demo import tasks
    from mars_demo.evaluation import accuracy

    for name in _names(data):
        examples = tasks.held_out(name, prompts // len(_names(data)))
        yield from accuracy.answers(checkpoint, examples, Request(mode, tau))


def _average(graded: list[tuple[Example, Run]], tau: float) -> Row:
    from mars_demo.evaluation import accuracy

    by_task = itertools.groupby(graded, key=lambda pair: pair[0].task)
    return accuracy.average([accuracy.row(name, tau, list(pairs)) for name, pairs in by_task])


def _probe(grown: Checkpoint, data: str) -> dict[str, Any]:
    from mars_demo.evaluation.task_sets import is_right

    graded = list(_answers(grown, data, TAU, PROBE_PROMPTS))
    average = _average(graded, TAU)
    return {
        "accuracy": average.accuracy,
        "tokens_per_forward": average.tokens_per_forward,
        "prompts": [
            {
                "prompt": example.prompt,
                "text": run.text,
                "right": is_right(example, run),
                "tokens_per_forward": run.tokens_per_forward,
            }
            for example, run in graded
        ],
    }


def _answer(checkpoint: Checkpoint, prompt: str, mode: str) -> Run:
    """Return an answer with median times: a single run just after a step is too noisy."""
    from mars_demo.decoding.decode import decode

    request = Request(mode, TAU, max_new_tokens=MAX_NEW_TOKENS)
    runs = [decode(checkpoint, prompt, request).finish() for _ in range(TIMED)]
    times = [median(step.ms for step in same) for same in zip(*(run.passes for run in runs))]
    timed = Run(runs[0].settings, (replace(step, ms=ms) for step, ms in zip(runs[0].passes, times)))
    return timed.finish()


def _record(run: Run) -> list[dict[str, Any]]:
    """Return a run's record with alternatives for accepted slots only."""
    lines = [json.loads(line) for line in run.lines()]
    for line in lines:
        for number, slot in enumerate(line.get("slots", [])):
            kept = ALTERNATIVES if number < line["accepted"] else 0
            for name in slot.keys() & {"top", "candidates"}:
                slot[name] = slot[name][:kept]
    return lines


def _short(value: Any) -> Any:
    """Return metrics in as many digits as a curve can show."""
    if isinstance(value, dict):
        return {name: _short(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_short(inner) for inner in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def record(entry: dict[str, Any]) -> Iterator[str]:
    """Run an entry of the index: a preset on a base, with a seed."""
    import torch

    from mars_demo.models.load import load_checkpoint

    preset = next(preset for preset in PRESETS if preset["id"] == entry["preset"])
    settings = ("objective", "block_size", "sft_weight", "data", "steps", "learning_rate")
    chosen = recipe(*(preset[name] for name in settings), seed=entry["seed"])
    base = load_checkpoint(entry["base"], dtype=torch.float32)
    with tempfile.TemporaryDirectory() as output:
        yield from watch(base, chosen, entry["prompt"], Path(output), entry["id"])
