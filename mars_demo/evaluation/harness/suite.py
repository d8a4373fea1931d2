"""Running the harness's tasks on a model: its metrics, and tokens per forward."""

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lm_eval import simple_evaluate
from lm_eval.api.group import Group
from lm_eval.api.task import Task
from lm_eval.tasks import TaskManager

from mars_demo.assets import ASSETS
from mars_demo.evaluation.harness.generated import Generated, Speed, speed
from mars_demo.evaluation.harness.model import MarsLM

FOLDER = ASSETS / "harness"  # the group of the paper's benchmarks
RESAMPLED = 1000  # resamples for the standard errors of metrics that are not means

# It logs notes for the authors of each task.
logging.getLogger("lm_eval").setLevel(logging.ERROR)


def load(names: Sequence[str], folder: Path | None = None) -> list[Task | Group]:
    """Load tasks, groups and tags with their data.

    names: their names, also with wildcards. folder: a folder with more task files.

    Raises:
        ValueError: if there is no such task, its data cannot be fetched, or a package is missing.
    """
    manager = TaskManager(include_path=[FOLDER, *([folder] if folder else [])])
    loaded: list[Task | Group] = []
    for name in names:
        if not (matches := manager.match_tasks([name])):
            raise ValueError(
                f"Unknown task {name!r}. Choose paper, a task of your own task files, or one of the "
                "harness's tasks, which `lm-eval ls tasks` lists."
            )
        for match in matches:
            loaded += _loaded(manager, match)
    return loaded


def _loaded(manager: TaskManager, name: str) -> list[Task | Group]:
    try:
        loaded = manager.load([name])
    except Exception as error:  # missing data, metrics and packages raise many types
        lines = [line for line in str(error).splitlines() if any(c.isalnum() for c in line)]
        reason = lines[0].strip() if lines else type(error).__name__
        raise ValueError(f"Task {name} cannot be loaded: {reason}") from error
    group = loaded["groups"].get(name)
    return [group] if group else list(loaded["tasks"].values())


def require_confirmed(tasks: Iterable[Task | Group]) -> None:
    """Reject tasks that execute code written by the model.

    Raises:
        ValueError: if one of the tasks does.
    """
    for task in tasks:
        for leaf in task.get_all_tasks() if isinstance(task, Group) else [task]:
            if getattr(leaf, "UNSAFE_CODE", False):
                raise ValueError(
                    f"Task {leaf.task_name} executes code written by the model. Run it in a sandbox and "
                    "confirm with --confirm-run-unsafe-code."
                )


def evaluate(
    model: MarsLM,
    tasks: Sequence[Task | Group],
    *,
    limit: int | None = None,
    shots: int | None = None,
    chat_template: bool = True,
    system: str | None = None,
    cache: Path | None = None,
    unsafe_code: bool = False,
) -> dict[str, Any]:
    """Return the harness's metrics and tokens per forward, as a record for a results file.

    limit: documents per task; None for all.
    shots: few-shot examples per question; None for the task's own number.
    cache: a folder for answers, from which an interrupted evaluation resumes.
    unsafe_code: whether tasks may execute code written by the model.

    Raises:
        ValueError: if the model does not support a task.
    """
    measured = simple_evaluate(
        model,
        tasks=list(tasks),
        task_manager=TaskManager(include_defaults=False),  # they are loaded already
        limit=limit,
        num_fewshot=shots,
        apply_chat_template=chat_template,
        fewshot_as_multiturn=chat_template,
        system_instruction=system,
        use_cache=str(cache / _cache_name(model)) if cache else None,
        confirm_run_unsafe_code=unsafe_code,
        bootstrap_iters=RESAMPLED,
    )
    return {
        "model": model.checkpoint.name,
        "precision": model.checkpoint.precision,
        **model.settings,
        "harness": version("lm_eval"),
        "chat_template": chat_template,
        "system": system,
        "limit": limit,
        "tasks": _rows(measured),
    }


def _cache_name(model: MarsLM) -> str:
    """Return a cache file name per model, because the harness finds an answer by its prompt alone."""
    checkpoint = model.checkpoint
    settings = [str(checkpoint.source), checkpoint.precision, model.settings, model.seed, model.max_length]
    return f"{checkpoint.name}-{hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:12]}"


def _rows(output: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each task and group with its metrics by name and filter, standard errors and speed."""
    speeds = {task: speed(_answers(samples)) for task, samples in output["samples"].items()}
    rows = []
    for name, measured in output["results"].items():
        leaves = _leaves(name, output["group_subtasks"])
        measured_speeds = [one for leaf in leaves if (one := speeds.get(leaf))]
        total = Speed(*map(sum, zip(*measured_speeds))) if measured_speeds else None
        metrics = {key: value for key, value in measured.items() if "," in key}
        errors = {key: value for key, value in metrics.items() if "_stderr," in key}
        rows.append(
            {
                "task": name,
                "group": leaves != [name],
                "n": measured["sample_len"],
                "shots": output["n-shot"].get(name),
                "metrics": {key: value for key, value in metrics.items() if key not in errors},
                "stderr": {
                    key.replace("_stderr", ""): value for key, value in errors.items() if value != "N/A"
                },
            }
            | (total.record() if total else {})
        )
    return rows


def _answers(samples: Iterable[Mapping[str, Any]]) -> list[Generated]:
    """Return a task's answers once; `samples` repeats each document for every filter."""
    documents = {sample["doc_id"]: sample for sample in samples}
    return [answer for sample in documents.values() for repeats in sample["resps"] for answer in repeats]


def _leaves(name: str, members: Mapping[str, Sequence[str]]) -> list[str]:
    if not members.get(name):
        return [name]
    return [leaf for member in members[name] for leaf in _leaves(member, members)]
