"""Worlds of mars-tiny that are skills of a larger model too, asked in more ways."""

import random
from dataclasses import replace

from mars_demo.tasks import functions, tables, word_problems
from mars_demo.tasks.common import Example, Task
from mars_demo.tasks.skills.common import TEXTS, Kinds, skill

ASKS = Kinds(**TEXTS["reused"])


def asked_anew(world: Task, name: str) -> Task:
    """Return a world as a skill of another name."""

    def make(rng: random.Random, unseen: bool) -> Example:
        example = world.make(rng)
        return replace(example, task=name, prompt=ASKS.pick(rng, unseen).format(example.prompt))

    return skill(name, world.title, make, world.grade)


STORY_PROBLEMS = asked_anew(word_problems.TASK, "story-problems")
ONE_LINE_FUNCTIONS = asked_anew(functions.TASK, "one-line-functions")
NUMBER_TABLES = asked_anew(tables.TASK, "number-tables")
