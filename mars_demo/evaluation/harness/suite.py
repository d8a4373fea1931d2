"""Tasks of the harness on a model: accuracy as the harness measures it, and tokens per forward."""

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

FOLDER = ASSETS / "harness"  # this project's task files
OWN = ("worlds", "instructions", "paper", "skills")
RESAMPLED = 1000  # times, for the standard errors of metrics that are no means

# It notes on every task what its authors should know of it.
logging.getLogger("lm_eval").setLevel(logging.ERROR)


def load(names: Sequence[str], folder: Path | None = None) -> list[Task | Group]:
    """Load tasks, groups and tags with their data. Names may hold wildcards; `folder` has more task files.

    Raises:
        ValueError: if there is no such task, its data cannot be fetched, or it needs what is not installed.
    """
    manager = _manager(names, [FOLDER, *([folder] if folder else [])])
    loaded: list[Task | Group] = []
    for name in names:
        if not (matches := manager.match_tasks([name])):
            raise ValueError(
                f"Unknown task {name!r}. Choose from {', '.join(OWN)}, those of your own task files, and "
                "the harness's, which `lm-eval ls tasks` lists."
            )
        for match in matches:
            loaded += _loaded(manager, match)
    return loaded


def _manager(names: Sequence[str], folders: Sequence[Path]) -> TaskManager:
    """Return an index of the task files that the names need. Reading the harness's own takes long."""
    few = TaskManager(include_path=list(folders), include_defaults=False)
    needed = {match for name in names for match in few.match_tasks([name]) or [name]}
    return few if all(_is_whole(few, name) for name in needed) else TaskManager(include_path=list(folders))


def _is_whole(manager: TaskManager, name: str) -> bool:
    """Return whether a task, and all tasks of a group, are in the index."""
    if (entry := manager.task_index.get(name)) is None:
        return False
    members = (entry.cfg or {}).get("task")
    members = members if isinstance(members, list) else []
    return all(
        _is_whole(manager, m if isinstance(m, str) else m.get("group", m.get("task"))) for m in members
    )


def _loaded(manager: TaskManager, name: str) -> list[Task | Group]:
    try:
        found = manager.load([name])
    except Exception as error:  # each task has its own way to miss its data, its metric or its packages
        lines = [line for line in str(error).splitlines() if any(c.isalnum() for c in line)]
        reason = lines[0].strip() if lines else type(error).__name__
        raise ValueError(f"Task {name} cannot be loaded: {reason}") from error
    group = found["groups"].get(name)
    return [group] if group else list(found["tasks"].values())


def require_confirmed(tasks: Iterable[Task | Group]) -> None:
    """
    Raises:
        ValueError: if one of the tasks executes what a model has written.
    """
    for task in tasks:
        for leaf in task.get_all_tasks() if isinstance(task, Group) else [task]:
            if getattr(leaf, "UNSAFE_CODE", False):
                raise ValueError(
                    f"Task {leaf.task_name} executes code that the model has written. Run it where that "
                    "can do no harm, and confirm it with --confirm-run-unsafe-code."
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
    """Return what the harness measures and tokens per forward, as a record for a file of results.

    limit: documents of each task; None for all.
    shots: worked examples before each question; None for the task's own number.
    cache: a folder for answers, from which an interrupted evaluation resumes.
    unsafe_code: whether tasks may execute what the model has written.

    Raises:
        ValueError: if the model cannot do what a task asks for.
    """
    found = simple_evaluate(
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
        "tasks": _rows(found),
    }


def _cache_name(model: MarsLM) -> str:
    """Return the file name of a model's answers: the harness finds an answer by its prompt alone."""
    checkpoint = model.checkpoint
    whose = [str(checkpoint.source), checkpoint.precision, model.settings, model.seed, model.max_length]
    return f"{checkpoint.name}-{hashlib.sha256(json.dumps(whose).encode()).hexdigest()[:12]}"


def _rows(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each task and group with its metrics, by name and filter, their standard errors and speed."""
    speeds = {task: speed(_answers(samples)) for task, samples in found["samples"].items()}
    rows = []
    for name, measured in found["results"].items():
        leaves = _leaves(name, found["group_subtasks"])
        known = [one for leaf in leaves if (one := speeds.get(leaf))]
        total = Speed(*map(sum, zip(*known))) if known else None
        metrics = {key: value for key, value in measured.items() if "," in key}
        errors = {key: value for key, value in metrics.items() if "_stderr," in key}
        rows.append(
            {
                "task": name,
                "group": leaves != [name],
                "n": measured["sample_len"],
                "shots": found["n-shot"].get(name),
                "metrics": {key: value for key, value in metrics.items() if key not in errors},
                "stderr": {
                    key.replace("_stderr", ""): value for key, value in errors.items() if value != "N/A"
                },
            }
            | (total.record() if total else {})
        )
    return rows


def _answers(samples: Iterable[Mapping[str, Any]]) -> list[Generated]:
    """Return a task's answers; each document comes once for every filter."""
    documents = {sample["doc_id"]: sample for sample in samples}
    return [answer for sample in documents.values() for repeats in sample["resps"] for answer in repeats]


def _leaves(name: str, members: Mapping[str, Sequence[str]]) -> list[str]:
    if not members.get(name):
        return [name]
    return [leaf for member in members[name] for leaf in _leaves(member, members)]
