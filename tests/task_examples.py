"""Examples of every task and skill."""

import itertools
import random

from mars_demo.tasks import SKILLS, TASKS, Example

ALL = TASKS | SKILLS


def drawn(name: str, count: int = 40, seed: int = 0) -> list[Example]:
    """Return examples of a task, every other one of a kind that training never sees, if there are any."""
    rng, task = random.Random(seed), ALL[name]
    count = 6 if name == "records" else count  # each of these runs two child processes
    makers = itertools.cycle((task.make, task.make_unseen or task.make))
    return [make(rng) for make, _ in zip(makers, range(count))]
