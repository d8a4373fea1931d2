"""Lists sorted, without duplicates, numbered, or as bullets."""

from __future__ import annotations

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills.common import LONGEST, Kinds, lines_of, request, skill
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
# For each request: the change of the list, the form of the answer, and phrasings.
CHORES = (
    ("sort", "commas", Kinds(
        ("Sort these {group} alphabetically, separated by commas.",
         "Put the {group} in alphabetical order, with commas between them.",
         "Alphabetize this, comma-separated."),
        ("Which order from A to Z? Comma-separated please.",
         "Order the {group} by the alphabet with commas."),
    )),
    ("sort", "lines", Kinds(
        ("Sort these {group} from A to Z, one per line.",
         "Alphabetical order please, one {group} entry per line.",
         "Put this list in alphabetical order, each on its own line."),
        ("Arrange the {group} by letter, one on each line.", "From A to Z, line by line."),
    )),
    ("reverse", "lines", Kinds(
        ("Sort these {group} from Z to A, one per line.", "Reverse alphabetical order, one per line.",
         "List the {group} from Z to A, each on its own line."),
        ("Backwards through the alphabet, one per line.", "Arrange the {group} Z first, line by line."),
    )),
    ("distinct", "commas", Kinds(
        ("Remove the duplicates and keep the order, separated by commas.",
         "List each of these {group} only once, with commas, in the same order.",
         "Drop repeated {group}. Comma-separated, order as it is."),
        ("Dedupe the {group} without reordering, commas between.",
         "Every entry once, in order, commas."),
    )),
    ("distinct", "bullets", Kinds(
        ("Remove the duplicates and make bullet points, in the same order.",
         "Bullet list of these {group} without repeats, order as it is.",
         "List each of the {group} once as bullets, keep the order."),
        ("Bullets please, each thing once, no reordering.", "Dedupe into dashes, original order."),
    )),
    ("same", "numbers", Kinds(
        ("Number these {group}.", "Make a numbered list of this.",
         "Turn the {group} into a numbered list, same order."),
        ("Put 1, 2, 3 and so on before the {group}, one per line.",
         "Enumerate the {group} line by line."),
    )),
    ("same", "bullets", Kinds(
        ("Make bullet points of these {group}.", "Turn this into a bulleted list.",
         "Write the {group} as a list with dashes."),
        ("A dash in front of each of the {group}, one per line.", "Itemize the {group} with bullets."),
    )),
    ("sort", "numbers", Kinds(
        ("Sort these {group} alphabetically and number them.",
         "Make a numbered list in alphabetical order.", "Numbered list of the {group} from A to Z."),
        ("Rank the {group} by the alphabet with numbers.", "Enumerate from A to Z."),
    )),
    ("distinct and sort", "lines", Kinds(
        ("Remove duplicates and sort from A to Z, one per line.",
         "Alphabetical, without repeats, one per line.",
         "List each of the {group} once, in alphabetical order, one per line."),
        ("Unique {group} from A to Z, line by line.", "Sort and dedupe, one on each line."),
    )),
)  # fmt: skip


def make(rng: random.Random, unseen: bool) -> Example:
    change, form, asks = rng.choice(CHORES)
    group = rng.choice(list(GROUPS))
    items = rng.sample(GROUPS[group].split(), rng.randint(4, 8))
    if "distinct" in change:
        items = rng.sample(items + rng.choices(items, k=rng.randint(1, 3)), k=len(items) + 1)
    written = rng.choice(("commas", "lines")) if form != "lines" else "commas"
    prompt = request(rng, asks.pick(rng, unseen).format(group=group), WRITTEN[written](items))
    answer = WRITTEN[form](CHANGES[change](items))
    return Example("lists", prompt, answer, {"lines": answer.splitlines()})


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer has the right lines; any bullet is a bullet."""
    found = [f"- {line[1:].strip()}" if line[0] in "*•" else line for line in lines_of(answer[:LONGEST])]
    return found == example.facts["lines"]


TASK = skill("lists", "Lists in order", make, grade)
