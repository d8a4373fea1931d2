"""A name changed throughout a piece of Python."""

from __future__ import annotations

import ast
import random
import re

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills.common import LONGEST, Kinds, python, request, skill, unfenced

# Names in angle brackets are drawn; any of them may be the one that changes.
SNIPPETS = Kinds(
    seen=(
        "def <f>(<a>, <b>):\n    <c> = <a> + <b>\n    return <c> * 2",
        "def <f>(<a>):\n    <b> = []\n    for <c> in <a>:\n        <b>.append(<c> * 2)\n    return <b>",
        "<a> = 10\n<b> = <a> + 5\nprint(<a>, <b>)",
        "def <f>(<a>):\n    if not <a>:\n        return None\n    return max(<a>) - min(<a>)",
        "<a> = input()\nwhile <a>:\n    print(len(<a>))\n    <a> = input()",
        "def <f>(<a>, <b>=1):\n    return [<c> + <b> for <c> in <a> if <c> > <b>]",
        "class <f>:\n    def __init__(self, <a>):\n        self.<a> = <a>\n\n    def show(self):\n"
        "        print(self.<a>)",
        "def <f>(<a>):\n    <b> = 0\n    for <c> in range(<a>):\n        <b> += <c>\n    return <b>",
        "<a> = {}\nfor <b> in open('data.txt'):\n    <a>[<b>] = <a>.get(<b>, 0) + 1\nprint(<a>)",
        "def <f>(<a>, <b>):\n    try:\n        return <a> / <b>\n    except ZeroDivisionError:\n"
        "        return <a>",
        "<a> = [3, 1, 2]\n<a>.sort()\n<b> = <a>[0]\nprint(<b>, <a>)",
        "def <f>(<a>):\n    <b>, <c> = <a>\n    return <c>, <b>",
    ),
    unseen=(
        "def <f>(<a>):\n    <b> = set()\n    for <c> in <a>:\n        if <c> in <b>:\n"
        "            return <c>\n        <b>.add(<c>)\n    return None",
        "with open('log.txt') as <a>:\n    <b> = <a>.read()\nprint(<b>.upper())",
        "<f> = lambda <a>, <b>: <a> if <a> > <b> else <b>\nprint(<f>(1, 2))",
    ),
)
NAMES = """
    account age amount average balance batch book buffer city color column cost count counter customer data
    day distance element entry event field file first group height index item key label last length level
    limit line message month name node number order owner page parent part path people person player points
    position price product quantity rate record result row score second section size speed start state step
    student seat table tag target task team temp text ticket time title token total user value vehicle
    weight width word year
""".split()
ASKS = Kinds(
    seen=(
        "Rename {old} to {new} in this Python code.",
        "Change the name {old} to {new} everywhere in this code.",
        "In the code below, call {old} {new} instead.",
        "Replace the name {old} by {new} throughout.",
        "Please rename `{old}` to `{new}`.",
        "I want {old} to be called {new}. Show the code.",
    ),
    unseen=(
        "Refactor: {old} should become {new}.",
        "Swap the identifier {old} for {new} and print the code.",
    ),
)


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
    prompt = request(rng, ASKS.pick(rng, unseen).format(old=old, new=new), _filled(snippet, chosen))
    code = _filled(snippet, chosen | {renamed: new})
    return Example("renaming", prompt, python(code), {"code": code})


def _filled(snippet: str, names: dict[str, str]) -> str:
    return re.sub(r"<(\w)>", lambda blank: names[blank[1]], snippet)


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer has the syntax tree of the renamed code."""
    try:
        found = ast.dump(ast.parse(unfenced(answer[:LONGEST])))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return found == ast.dump(ast.parse(example.facts["code"]))


TASK = skill("renaming", "A name changed in code", make, grade)
