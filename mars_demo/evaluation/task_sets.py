"""Task sets: named lists of prompts with graders, for sweeps."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from mars_demo import tasks
from mars_demo.core.trace import Run
from mars_demo.tasks import instructions

MOST = 2000  # prompts per task set
MAX_NEW_TOKENS = 160  # the longest worked answer of a task has under 100, of a skill under 150


def is_right(example: tasks.Example, run: Run) -> bool:
    """Return whether an answer is right; it must end with an end token."""
    return run.stop == "eos" and tasks.task(example.task).grade(example, run.text)


@dataclass(frozen=True)
class Question:
    """A prompt with the grader of a finished run."""

    prompt: str
    grade: Callable[[Run], bool]


@dataclass(frozen=True)
class TaskSet:
    """A named list of questions of one kind."""

    name: str
    title: str
    draw: Callable[[int], list[Question]]  # the first N questions, always the same ones
    max_new_tokens: int = MAX_NEW_TOKENS

    def questions(self, limit: int) -> list[Question]:
        """Return at most `limit` questions.

        Raises:
            ValueError: if `limit` is not from 1 to `MOST`, or more than a task has.
        """
        if not 1 <= limit <= MOST:
            raise ValueError(f"The number of prompts must be 1 to {MOST}, not {limit}.")
        return self.draw(limit)


def task_set(name: str) -> TaskSet:
    """Return the task set of this name.

    Raises:
        ValueError: if there is none.
    """
    if name not in TASK_SETS:
        raise ValueError(f"Unknown task set {name!r}. Choose from {', '.join(TASK_SETS)}.")
    return TASK_SETS[name]


def _questions(examples: list[tasks.Example]) -> list[Question]:
    return [Question(example.prompt, partial(is_right, example)) for example in examples]


def _family(name: str, limit: int) -> list[Question]:
    """Return held-out prompts of all tasks of a family in turn."""
    names = [*tasks.FAMILIES[name]]
    return _questions(tasks.mixed(-(-limit // len(names)), names)[:limit])


def _task(name: str, limit: int) -> list[Question]:
    return _questions(tasks.held_out(name, limit))


def _instructions(limit: int) -> list[Question]:
    """Return instructions spaced evenly over the list, whose neighbours are alike."""
    every = instructions.instructions()
    count = min(limit, len(every))
    chosen = (every[number * len(every) // count] for number in range(count))
    return [Question(one.prompt, lambda run, one=one: one.holds(run.text)) for one in chosen]


TASK_SETS = {
    task_set.name: task_set
    for task_set in (
        TaskSet("worlds", "all tasks", partial(_family, "tasks")),
        *(TaskSet(task.name, task.title, partial(_task, task.name)) for task in tasks.TASKS.values()),
        TaskSet("skills", "all skills", partial(_family, "skills")),
        *(TaskSet(task.name, task.title, partial(_task, task.name)) for task in tasks.SKILLS.values()),
        TaskSet("instructions", "verifiable instructions", _instructions, max_new_tokens=192),
    )
}
