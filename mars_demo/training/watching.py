"""Live and recorded trainings: curves, answers to held-out prompts, and one answer as it improves.

`assets/trainings/index.json` lists the recordings; each has a JSONL file next to it.
`python -m mars_demo record trainings` records them again.
"""

from __future__ import annotations

import itertools
import json
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from statistics import median
from typing import Any

import torch

from mars_demo import tasks
from mars_demo.assets import ASSETS, read_json
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.evaluation import accuracy, results
from mars_demo.evaluation.accuracy import Row
from mars_demo.evaluation.task_sets import is_right
from mars_demo.limits import LIMITS
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.tasks import Example
from mars_demo.training.config import MarsConfig
from mars_demo.training.steps import stepwise
from mars_demo.training.trainer import MarsTrainer

SCHEMA = 1
FOLDER = ASSETS / "trainings"
PRESETS = read_json("presets.json")
DATA = {
    "word problems": "tasks:word-problems",
    "all tasks": "tasks",
    "tables and lists": "tasks:tables,sorting,reversing",
    "notes and stories": "tasks:notes,stories",
    "code": "tasks:functions",
}
BATCH_TOKENS = 1024
MUON = 2  # Muon's learning rate relative to AdamW's

PROBE_TASKS = ("word-problems", "units", "letters", "notes", "functions", "tables")  # by default
PROBE_PROMPTS = 6
PROBES, ANSWERS = 4, 16  # how often a training answers held-out prompts, and the watched one
TAU = 0.95
MAX_NEW_TOKENS = 128
TIMED = 3  # runs of the watched prompt per answer
ALTERNATIVES = 2  # recorded per accepted slot of the watched answer


def index() -> list[dict[str, Any]]:
    """Return the recorded trainings in display order: `id`, `title`, and their settings."""
    return json.loads((FOLDER / "index.json").read_text("utf-8"))


def recording(id: str) -> str:
    """Return a recorded training as JSON lines, as `watch` made them.

    Raises:
        ValueError: if there is no recording with that id.
    """
    if id not in [entry["id"] for entry in index()]:
        raise ValueError(f"Unknown recorded training {id!r}.")
    return (FOLDER / f"{id}.jsonl").read_text("utf-8")


def settings(
    objective: str,
    block_size: float,
    sft_weight: float,
    data: str,
    steps: float,
    learning_rate: float,
    seed: int,
) -> dict[str, Any]:
    """Return the settings of a training short enough to watch, on one of `DATA`, without saved states.

    They are no `MarsConfig` yet, which looks for devices: on ZeroGPU only the lent process may do so.

    Raises:
        ValueError: if a setting is out of range.
    """
    if not 1 <= steps <= LIMITS.train_steps:
        raise ValueError(f"The number of steps must be from 1 to {LIMITS.train_steps}, not {steps:g}.")
    if not 0 < learning_rate <= 0.1:
        raise ValueError(f"The learning rate must be above 0 and at most 0.1, not {learning_rate:g}.")
    if data not in DATA:
        raise ValueError(f"Unknown data set {data!r}. Choose from {', '.join(DATA)}.")
    return {
        "objective": objective,
        "block_size": int(block_size),
        "sft_weight": sft_weight,
        "data": DATA[data],
        "max_steps": int(steps),
        "batch_tokens": BATCH_TOKENS,
        "learning_rate": learning_rate,
        "muon_learning_rate": MUON * learning_rate,
        "warmup_steps": 0.1,
        "seed": seed,
        "save_strategy": "no",
    }


def watch(
    checkpoint: Checkpoint,
    config: MarsConfig,
    prompt: str,
    name: str,
    pace: Callable[[], float] = lambda: 1.0,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[str]:
    """Train `checkpoint` in place, save it in the output folder, and yield the record line by line.

    The first line has the settings as `recipe`, the `base`, the `machine`, the `prompt` and in `before` the
    base's answer to it, as the lines of a `trace.Run`. A line of `Metrics` per step follows. In between,
    lines with `answer`, a step, have the `record` of the answer after that step; lines with `probe`, a
    step, have the `accuracy`, the `tokens_per_forward` and the `prompts` of an evaluation on held-out
    prompts. The last line has `done` and the number of `steps`.

    name: the name of the trained checkpoint.
    pace: factor of the learning rates, read at every step.
    stopped: whether to stop, read after every step; the weights are then saved as they are.

    Raises:
        ValueError: if the prompt cannot be answered, or as `MarsTrainer.run`.
    """
    yield _head(checkpoint, config, prompt)

    def look(probe: bool) -> Iterator[str]:
        grown = as_trained(checkpoint, config, name)
        if probe:
            yield _line(_short({"probe": step} | _probe(grown, config.data)))
        yield _line({"answer": step, "record": _record(_answer(grown, prompt, grown.modes[0]))})

    steps = config.max_steps
    every = {"probe": max(1, steps // PROBES), "answer": max(1, steps // ANSWERS)}
    trainer = MarsTrainer(checkpoint.model, config, processing_class=checkpoint.tokenizer, pace=pace)
    answered = step = 0
    try:
        with closing(stepwise(trainer)) as run:  # also when the visitor leaves
            for metrics in run:
                step = metrics.step
                due = {kind for kind in every if step in (1, steps) or step % every[kind] == 0}
                yield _line(_short(json.loads(metrics.line())))
                if due:
                    checkpoint.model.eval()
                    yield from look("probe" in due)
                    answered = step
                if stopped():
                    break
    finally:
        checkpoint.model.eval()
    trainer.save_model()
    if answered < step:
        yield from look(probe=False)
    yield _line({"done": True, "steps": step})


def _head(checkpoint: Checkpoint, config: MarsConfig, prompt: str) -> str:
    """Return the first line of a record."""
    return _line(
        {
            "training": secrets.token_hex(4),
            "schema": SCHEMA,
            "base": checkpoint.name,
            "machine": results.machine(checkpoint),
            "recipe": config.record(),
            "prompt": prompt,
            "before": _record(_answer(checkpoint, prompt, "ar")),
        }
    )


def as_trained(checkpoint: Checkpoint, config: MarsConfig, name: str) -> Checkpoint:
    """Return the checkpoint of a model in training, as saving would make it."""
    if config.objective == "ar":
        return replace(checkpoint, name=name, block_size=None, objective="ar")
    mask_id = checkpoint.tokenizer.mask_token_id
    return replace(
        checkpoint, name=name, mask_id=mask_id, block_size=config.block_size, objective=config.objective
    )


def measuring(
    checkpoint: Checkpoint, data: str, tau: float, prompts: int, mode: str | None = None
) -> Iterator[Row | None]:
    """Answer about `prompts` held-out prompts of the tasks in `data`.

    Yields None after each answer and the average at the end.
    """
    graded = []
    for pair in _answers(checkpoint, data, tau, prompts, mode):
        graded.append(pair)
        yield None
    yield _average(graded, tau)


def measured(data: str, prompts: int) -> int:
    """Return the number of answers that `measuring` decodes."""
    names = _names(data)
    return len(names) * (prompts // len(names))


def _names(data: str) -> list[str]:
    return data.partition(":")[2].split(",") if ":" in data else [*PROBE_TASKS]


def _answers(
    checkpoint: Checkpoint, data: str, tau: float, prompts: int, mode: str | None = None
) -> Iterator[tuple[Example, Run]]:
    for name in _names(data):
        examples = tasks.held_out(name, prompts // len(_names(data)))
        yield from accuracy.answers(checkpoint, examples, Request(mode, tau))


def _average(graded: list[tuple[Example, Run]], tau: float) -> Row:
    by_task = itertools.groupby(graded, key=lambda pair: pair[0].task)
    return accuracy.average([accuracy.row(name, tau, list(pairs)) for name, pairs in by_task])


def _probe(grown: Checkpoint, data: str) -> dict[str, Any]:
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
    """Return an answer with median times; a single run right after a step is too noisy."""
    request = Request(mode, TAU, max_new_tokens=MAX_NEW_TOKENS)
    runs = [decode(checkpoint, prompt, request).finish() for _ in range(TIMED)]
    times = [median(step.ms for step in same) for same in zip(*(run.passes for run in runs))]
    timed = Run(runs[0].settings, (replace(step, ms=ms) for step, ms in zip(runs[0].passes, times)))
    return timed.finish()


def _record(run: Run) -> list[dict[str, Any]]:
    """Return a run's record with alternatives only for accepted slots."""
    lines = [json.loads(line) for line in run.lines()]
    for line in lines:
        for number, slot in enumerate(line.get("slots", [])):
            kept = ALTERNATIVES if number < line["accepted"] else 0
            for name in slot.keys() & {"top", "candidates"}:
                slot[name] = slot[name][:kept]
    return lines


def _short(value: Any) -> Any:
    """Return metrics rounded to the digits that a curve can show."""
    if isinstance(value, dict):
        return {name: _short(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_short(inner) for inner in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def record(entry: dict[str, Any]) -> Iterator[str]:
    """Run an entry of the index, a preset on a base with a seed, and yield its record."""
    base = load_checkpoint(entry["base"], dtype=torch.float32, for_training=True)
    with tempfile.TemporaryDirectory() as output:
        config = MarsConfig(output, **preset_settings(entry["preset"], entry["seed"]))
        yield from watch(base, config, entry["prompt"], entry["id"])


def preset_settings(id: str, seed: int) -> dict[str, Any]:
    """Return the settings of a preset."""
    preset = next(preset for preset in PRESETS if preset["id"] == id)
    names = ("objective", "block_size", "sft_weight", "data", "steps", "learning_rate")
    return settings(*(preset[name] for name in names), seed=seed)
