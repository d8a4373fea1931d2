"""Tasks of mars-tiny as skills of a larger model, with more phrasings."""

import random
from dataclasses import replace

from mars_demo.tasks.common import Example, Task
from mars_demo.tasks.skills.common import kinds, request, skill


def as_skill(task: Task, name: str) -> Task:
    """Return a task as a skill with another name and phrasings, in which `{question}` is its prompt."""
    asks = kinds(name)

    def make(rng: random.Random, unseen: bool) -> Example:
        example = task.make(rng)
        prompt = request(rng, asks.pick(rng, unseen), question=example.prompt)
        return replace(example, task=name, prompt=prompt)

    return skill(name, task.title, make, task.grade)
