"""Examples of every task and skill."""

import itertools
import random

from mars_demo.tasks import SKILLS, TASKS, Example

ALL = TASKS | SKILLS


def examples_of(name: str, count: int = 40, seed: int = 0) -> list[Example]:
    """Return examples of a task, alternately of seen and unseen kinds if a task has unseen ones."""
    rng, task = random.Random(seed), ALL[name]
    makers = itertools.cycle((task.make, task.make_unseen or task.make))
    return [make(rng) for make, _ in zip(makers, range(count))]
