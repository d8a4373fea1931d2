"""Task sets: named lists of prompts with graders, for sweeps."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from mars_demo import tasks
from mars_demo.core.trace import Run
from mars_demo.tasks import instructions

MOST = 2000  # prompts per task set
MAX_NEW_TOKENS = 160  # the longest worked answer of a task has under 100, of a skill under 150
INSTRUCTIONS = "instructions"
TITLES = {  # of the task sets
    "tasks": "all tasks",
    **{task.name: task.title for task in tasks.TASKS.values()},
    "skills": "all skills",
    **{task.name: task.title for task in tasks.SKILLS.values()},
    INSTRUCTIONS: "verifiable instructions",
}


def is_right(example: tasks.Example, run: Run) -> bool:
    """Return whether an answer is right; it must end with an end token."""
    return run.stop == "eos" and tasks.task(example.task).grade(example, run.text)


@dataclass(frozen=True)
class Question:
    """A prompt with the grader of a finished run."""

    prompt: str
    grade: Callable[[Run], bool]


def questions(name: str, limit: int) -> list[Question]:
    """Return the first questions of a task set, at most `limit`; all tasks or skills take turns.

    Raises:
        ValueError: if there is no such set, or `limit` is not from 1 to `MOST`, or more than a task has.
    """
    if name not in TITLES:
        raise ValueError(f"Unknown task set {name!r}. Choose from {', '.join(TITLES)}.")
    if not 1 <= limit <= MOST:
        raise ValueError(f"The number of prompts must be 1 to {MOST}, not {limit}.")
    if name == INSTRUCTIONS:
        every = instructions.instructions()
        count = min(limit, len(every))
        # Spaced evenly over the list, whose neighbours are alike.
        chosen = (every[number * len(every) // count] for number in range(count))
        return [Question(one.prompt, lambda run, one=one: one.holds(run.text)) for one in chosen]
    if family := tasks.FAMILIES.get(name):
        examples = tasks.mixed(-(-limit // len(family)), [*family])[:limit]
    else:
        examples = tasks.held_out(name, limit)
    return [Question(example.prompt, partial(is_right, example)) for example in examples]


def max_new_tokens(name: str) -> int:
    """Return the length at which answers to a task set are truncated."""
    return 192 if name == INSTRUCTIONS else MAX_NEW_TOKENS
