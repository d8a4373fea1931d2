"""Chat problems with worked answers and exact graders: the small closed worlds of mars-tiny, and skills.

A very small model learns these worlds from scratch, so every answer is written to be easy to derive:
numbers are small, arithmetic is shown step by step, and vocabularies are closed. The worlds differ on
purpose in how predictable their answers are: a times table is almost all boilerplate, while a tiny story is
nearly all free choice.

Each world is a file of its own and a line in `TASKS`: a `Task` that draws examples and grades answers. One
prompt in ten is held out, chosen by a hash of the prompt alone. `SKILLS` are tasks for a larger model.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence

from mars_demo.tasks import (
    functions,
    letters,
    notes,
    number_words,
    reversing,
    sorting,
    stories,
    tables,
    units,
    weekdays,
    word_problems,
    world_facts,
)
from mars_demo.tasks.common import Example, Task
from mars_demo.tasks.skills import SKILLS

# The order matters: the same seed draws other examples from the same worlds in another order.
TASKS: dict[str, Task] = {
    world.TASK.name: world.TASK
    for world in (
        word_problems,
        units,
        weekdays,
        sorting,
        reversing,
        letters,
        number_words,
        world_facts,
        notes,
        stories,
        functions,
        tables,
    )
}

FAMILIES = {"tasks": TASKS, "skills": SKILLS}  # by what `--data` and `--tasks` call them

SPLITS = ("train", "held-out")
HELD_OUT_SHARE = 10  # one prompt in this many is held out
UNSEEN_SHARE = 0.25  # of held-out prompts, of kinds that training never sees


def task(name: str) -> Task:
    """Return a world or a skill.

    Raises:
        ValueError: if there is none of that name.
    """
    known = TASKS | SKILLS
    if name not in known:
        raise ValueError(f"Unknown task {name!r}: choose from {', '.join(known)}.")
    return known[name]


def named(chosen: str) -> list[str]:
    """Return the names in a comma-separated list, in which a family stands for all of its tasks.

    Raises:
        ValueError: if there is no such task.
    """
    parts = [[*FAMILIES[name]] if name in FAMILIES else [task(name).name] for name in chosen.split(",")]
    return [name for part in parts for name in part]


def split_of(prompt: str) -> str:
    """Return the split a prompt belongs to, the same on every machine."""
    digest = hashlib.sha256(prompt.encode()).digest()
    return "held-out" if int.from_bytes(digest[:8], "big") % HELD_OUT_SHARE == 0 else "train"


def examples(names: Sequence[str] | None, split: str, seed: int) -> Iterator[Example]:
    """Yield endless examples of one split, drawn by weight from the named tasks (None: all of them)."""
    tasks = [task(name) for name in (TASKS if names is None else names)]
    if not tasks:
        raise ValueError("Name at least one task, or pass None for all of them.")
    if split not in SPLITS:
        raise ValueError(f"Unknown split {split!r}: choose one of {', '.join(SPLITS)}.")
    return _draws(tasks, split, random.Random(seed))


def held_out(name: str, count: int, seed: int = 0) -> list[Example]:
    """Return `count` held-out examples of one task, no two with the same prompt."""
    rng = random.Random(f"{name}/{seed}")
    draws = _draws([task(name)], "held-out", rng)
    found: dict[str, Example] = {}
    for _ in range(1000 + 20 * count):
        if len(found) == count:
            break
        example = next(draws)
        found.setdefault(example.prompt, example)
    if len(found) < count:
        raise ValueError(f"Task {name!r} has too few held-out prompts to give {count}.")
    return list(found.values())


def mixed(per_task: int, names: Sequence[str] = tuple(TASKS)) -> list[Example]:
    """Return `per_task` held-out examples of every task, one task after the other in turn."""
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
        yield example
