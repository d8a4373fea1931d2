"""Lists to sort, deduplicate, number, or write as bullets."""

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills.common import LONGEST, Kinds, lines_of, request, skill, texts
from mars_demo.tasks.skills.words import GROUPS

WRITTEN = {
    "commas": ", ".join,
    "lines": "\n".join,
    "bullets": lambda items: "\n".join(f"- {item}" for item in items),
    "numbers": lambda items: "\n".join(f"{i}. {item}" for i, item in enumerate(items, start=1)),
}
CHANGES = {
    "sort": sorted,
    "reverse": lambda items: sorted(items, reverse=True),
    "distinct": lambda items: list(dict.fromkeys(items)),
    "same": list,
    "distinct and sort": lambda items: sorted(set(items)),
}
CHORES = texts("lists")["chores"]  # each with the change, the format of the answer, and phrasings


def make(rng: random.Random, unseen: bool) -> Example:
    chore = rng.choice(CHORES)
    change, form, asks = chore["change"], chore["form"], Kinds(**chore["asks"])
    group = rng.choice(list(GROUPS))
    items = rng.sample(GROUPS[group].split(), rng.randint(4, 8))
    if "distinct" in change:
        items = rng.sample(items + rng.choices(items, k=rng.randint(1, 3)), k=len(items) + 1)
    written = rng.choice(("commas", "lines")) if form != "lines" else "commas"
    prompt = request(rng, asks.pick(rng, unseen), WRITTEN[written](items), group=group)
    answer = WRITTEN[form](CHANGES[change](items))
    return Example("lists", prompt, answer, {"lines": answer.splitlines()})


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer has the right lines, with any kind of bullet."""
    lines = [f"- {line[1:].strip()}" if line[0] in "*•" else line for line in lines_of(answer[:LONGEST])]
    return lines == example.facts["lines"]


TASK = skill("lists", "Lists in order", make, grade)
