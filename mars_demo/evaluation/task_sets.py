"""Task sets: prompts with graders, by name, that a sweep of settings answers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from mars_demo import tasks
from mars_demo.decoding.trace import Run
from mars_demo.tasks import instructions

MOST = 2000  # prompts of a task set
MAX_NEW_TOKENS = 160  # the longest worked answer of a world has under 100, of a skill under 150


def is_right(example: tasks.Example, run: Run) -> bool:
    """An answer counts only if the model ended it itself."""
    return run.stop == "eos" and tasks.task(example.task).grade(example, run.text)


@dataclass(frozen=True)
class Question:
    """A prompt, and whether a finished run answers it rightly."""

    prompt: str
    grade: Callable[[Run], bool]


@dataclass(frozen=True)
class TaskSet:
    """Questions of one kind."""

    name: str
    title: str
    draw: Callable[[int], list[Question]]  # the first so many, or all; always the same ones
    max_new_tokens: int = MAX_NEW_TOKENS

    def questions(self, limit: int) -> list[Question]:
        """
        Raises:
            ValueError: if `limit` is not 1 to `MOST`, or more than a task has.
        """
        if not 1 <= limit <= MOST:
            raise ValueError(f"The number of prompts must be 1 to {MOST}, not {limit}.")
        return self.draw(limit)


def task_set(name: str) -> TaskSet:
    """
    Raises:
        ValueError: if there is none of that name.
    """
    if name not in TASK_SETS:
        raise ValueError(f"Unknown task set {name!r}. Choose from {', '.join(TASK_SETS)}.")
    return TASK_SETS[name]


def _asked(examples: list[tasks.Example]) -> list[Question]:
    return [Question(example.prompt, partial(is_right, example)) for example in examples]


def _family(name: str, limit: int) -> list[Question]:
    """Return held-out prompts of all tasks of a family in turn."""
    names = [*tasks.FAMILIES[name]]
    return _asked(tasks.mixed(-(-limit // len(names)), names)[:limit])


def _task(name: str, limit: int) -> list[Question]:
    return _asked(tasks.held_out(name, limit))


def _instructions(limit: int) -> list[Question]:
    """Evenly from the whole list, in which like stands beside like."""
    found = instructions.instructions()
    count = min(limit, len(found))
    chosen = (found[number * len(found) // count] for number in range(count))
    return [Question(one.prompt, lambda run, one=one: one.holds(run.text)) for one in chosen]


TASK_SETS = {
    task_set.name: task_set
    for task_set in (
        TaskSet("worlds", "all worlds", partial(_family, "tasks")),
        *(TaskSet(task.name, task.title, partial(_task, task.name)) for task in tasks.TASKS.values()),
        TaskSet("skills", "all skills", partial(_family, "skills")),
        *(TaskSet(task.name, task.title, partial(_task, task.name)) for task in tasks.SKILLS.values()),
        TaskSet("instructions", "checked instructions", _instructions, max_new_tokens=192),
    )
}
