"""Tasks of mars-tiny as skills of a larger model, with more phrasings."""

import random
from dataclasses import replace

from mars_demo.tasks import functions, tables, word_problems
from mars_demo.tasks.common import Example, Task
from mars_demo.tasks.skills.common import TEXTS, Kinds, skill

ASKS = Kinds(**TEXTS["reused"])


def as_skill(task: Task, name: str) -> Task:
    """Return a task as a skill with another name and phrasings."""

    def make(rng: random.Random, unseen: bool) -> Example:
        example = task.make(rng)
        return replace(example, task=name, prompt=ASKS.pick(rng, unseen).format(example.prompt))

    return skill(name, task.title, make, task.grade)


STORY_PROBLEMS = as_skill(word_problems.TASK, "story-problems")
ONE_LINE_FUNCTIONS = as_skill(functions.TASK, "one-line-functions")
NUMBER_TABLES = as_skill(tables.TASK, "number-tables")
