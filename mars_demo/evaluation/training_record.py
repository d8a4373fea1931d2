"""The record of a training: its curves, answers to held-out prompts, and one answer as it improves."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from mars_demo.core.acceptance import TAU
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results, task_sets
from mars_demo.evaluation.frontier import Setting
from mars_demo.evaluation.sweep import points
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.export import card
from mars_demo.training.config import MarsConfig
from mars_demo.training.stepwise import stepwise
from mars_demo.training.trainer import MarsTrainer

SCHEMA = 1
PROBE_TASKS = ("word-problems", "units", "letters", "notes", "functions", "tables")  # by default
PROBE_PROMPTS = 6
PROBES, ANSWERS = 4, 16  # how often a training answers held-out prompts, and the watched one
MAX_NEW_TOKENS = 128
TIMED = 3  # runs of the watched prompt per answer
ALTERNATIVES = 2  # recorded per accepted slot of the watched answer


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
            yield _line(_rounded({"probe": step} | _probe(grown, config.data)))
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
                yield _line(_rounded(metrics.record()))
                if due:
                    checkpoint.model.eval()
                    yield from look("probe" in due)
                    answered = step
                if stopped():
                    break
    finally:
        checkpoint.model.eval()
    trainer.save_model()
    card.write_recipe(Path(config.output_dir), checkpoint, config.record())
    if answered < step:
        yield from look(probe=False)
    yield _line({"done": True, "steps": step})


def _head(checkpoint: Checkpoint, config: MarsConfig, prompt: str) -> str:
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


def probe_questions(data: str, prompts: int) -> list[task_sets.Question]:
    """Return about `prompts` held-out questions of the tasks in `data`, equally many of each."""
    names = data.partition(":")[2].split(",") if ":" in data else PROBE_TASKS
    return [question for name in names for question in task_sets.questions(name, prompts // len(names))]


def _probe(grown: Checkpoint, data: str) -> dict[str, Any]:
    chosen = probe_questions(data, PROBE_PROMPTS)
    request = Request(tau=TAU, max_new_tokens=task_sets.MAX_NEW_TOKENS)
    *_, ([point], _) = points(grown, chosen, {Setting(grown.modes[0]): request})
    return {
        "accuracy": point.accuracy,
        "tokens_per_forward": point.tokens_per_forward,
        "prompts": [
            {
                "prompt": one.prompt,
                "text": outcome.text,
                "right": outcome.right,
                "tokens_per_forward": outcome.tokens / outcome.forwards,
            }
            for one, outcome in zip(chosen, point.outcomes)
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
    lines = [json.loads(line) for line in run.lines()]
    for line in lines:
        for number, slot in enumerate(line.get("slots", [])):
            kept = ALTERNATIVES if number < line["accepted"] else 0
            for name in slot.keys() & {"top", "candidates"}:
                slot[name] = slot[name][:kept]
    return lines


def _rounded(record: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(record), parse_float=lambda digits: float(f"{float(digits):.4g}"))


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"
