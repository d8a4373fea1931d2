"""Renaming throughout a piece of Python code."""

import ast
import random
import re

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills.common import LONGEST, kinds, python, request, skill, texts, unfenced

ASKS, NAMES = kinds("renaming"), texts("renaming")["names"].split()
SNIPPETS = kinds("renaming", "snippets")  # names in angle brackets are filled in, and one is renamed


def make(rng: random.Random, unseen: bool) -> Example:
    snippet = SNIPPETS.pick(rng, unseen)
    blanks = sorted(set(re.findall(r"<(\w)>", snippet)))
    *names, new = rng.sample(NAMES, len(blanks) + 1)
    chosen, other = dict(zip(blanks, names)), rng.choice(NAMES)
    if "f" in chosen:
        chosen["f"] = f"{'Box' if 'class' in snippet else 'get'}_{chosen['f']}"
    renamed = rng.choice(blanks)
    if renamed == "f" or rng.random() < 0.4:
        new = f"{new}_{other}"
    old = chosen[renamed]
    prompt = request(rng, ASKS.pick(rng, unseen), _filled(snippet, chosen), old=old, new=new)
    code = _filled(snippet, chosen | {renamed: new})
    return Example("renaming", prompt, python(code), {"code": code})


def _filled(snippet: str, names: dict[str, str]) -> str:
    return re.sub(r"<(\w)>", lambda blank: names[blank[1]], snippet)


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer has the same syntax tree as the renamed code."""
    try:
        tree = ast.dump(ast.parse(unfenced(answer[:LONGEST])))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return tree == ast.dump(ast.parse(example.facts["code"]))


TASK = skill("renaming", "A name changed in code", make, grade)
