"""Tasks with worked answers and exact graders: the small closed worlds of mars-tiny, and skills.

A very small model learns the tasks of `TASKS` from scratch, so their answers are easy to derive: numbers
are small, arithmetic is shown step by step, and vocabularies are closed. The tasks differ on purpose in
how predictable their answers are: a times table is almost all boilerplate, a tiny story nearly all free
choice. `SKILLS` are tasks for a larger model.

Each `Task` of a module here, named in `_ORDER`, draws examples and grades answers. One prompt in ten is
held out, chosen by a hash of the prompt alone.
"""

import hashlib
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence

from mars_demo.tasks.common import Example, Task, tasks_in
from mars_demo.tasks.skills import SKILLS

# In another order, the same seed draws other examples.
_ORDER = (
    "word-problems units weekdays sorting reversing letters number-words world-facts "
    "notes stories functions tables"
).split()
_FOUND = tasks_in(__name__, __path__)
TASKS = {name: _FOUND[name] for name in _ORDER}

FAMILIES = {"tasks": TASKS, "skills": SKILLS}  # by their names in `--data` and `--tasks`

SPLITS = ("train", "held-out")
HELD_OUT_SHARE = 10  # one prompt in this many is held out
FOLLOW_UP_SHARE = 0.2  # share of training examples with a second turn, of skills that have follow-ups
UNSEEN_SHARE = 0.5  # share of held-out prompts of kinds that training never sees


def task(name: str) -> Task:
    """Return the task or skill of this name.

    Raises:
        ValueError: if there is none.
    """
    every = TASKS | SKILLS
    if name not in every:
        raise ValueError(f"Unknown task {name!r}: choose from {', '.join(every)}.")
    return every[name]


def named(chosen: str) -> list[str]:
    """Return the task names in a comma-separated list, in which a family stands for all its tasks.

    Raises:
        ValueError: if there is no such task.
    """
    parts = [[*FAMILIES[name]] if name in FAMILIES else [task(name).name] for name in chosen.split(",")]
    return [name for part in parts for name in part]


def split_of(prompt: str) -> str:
    """Return the split of a prompt, the same on every machine."""
    digest = hashlib.sha256(prompt.encode()).digest()
    return "held-out" if int.from_bytes(digest[:8], "big") % HELD_OUT_SHARE == 0 else "train"


def examples(names: Iterable[str], split: str, seed: int) -> Iterator[Example]:
    """Return endless examples of one split, drawn by weight from the named tasks."""
    if split not in SPLITS:
        raise ValueError(f"Unknown split {split!r}: choose one of {', '.join(SPLITS)}.")
    return _draws([task(name) for name in names], split, random.Random(seed))


def held_out(name: str, count: int, seed: int = 0) -> list[Example]:
    """Return `count` held-out examples of one task with different prompts."""
    rng = random.Random(f"{name}/{seed}")
    draws = _draws([task(name)], "held-out", rng)
    by_prompt: dict[str, Example] = {}
    for example in itertools.islice(draws, 1000 + 20 * count):
        if len(by_prompt) == count:
            break
        by_prompt.setdefault(example.prompt, example)
    if len(by_prompt) < count:
        raise ValueError(f"Task {name!r} has fewer than {count} held-out prompts.")
    return list(by_prompt.values())


def mixed(per_task: int, names: Sequence[str] = tuple(TASKS)) -> list[Example]:
    """Return `per_task` held-out examples of every task, with the tasks in turn."""
    return [example for turn in zip(*(held_out(name, per_task) for name in names)) for example in turn]


def _draws(tasks: list[Task], split: str, rng: random.Random) -> Iterator[Example]:
    weights = [task.weight for task in tasks]
    while True:
        task = rng.choices(tasks, weights)[0]
        if split == "held-out" and task.make_unseen and rng.random() < UNSEEN_SHARE:
            yield task.make_unseen(rng)
            continue
        example = task.make(rng)
        # Draw the prompt again rather than the task, so that weights hold within each split.
        while split_of(example.prompt) != split:
            example = task.make(rng)
        if split == "train" and task.make_follow_up and rng.random() < FOLLOW_UP_SHARE:
            example = task.make_follow_up(rng, example)
        yield example
