"""Helpers shared by the skills: making requests and reading answers."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mars_demo.assets import read_json
from mars_demo.tasks.common import Example, Task

TEXTS = read_json("skills.json")  # phrasings, sentences and words, by skill
LONGEST = 4000  # graders read at most this many characters of an answer


@dataclass(frozen=True)
class Kinds:
    """Phrasings or fields of a skill: those of training, and those only of held-out prompts."""

    seen: Sequence[Any]
    unseen: Sequence[Any]

    def of(self, unseen: bool) -> Sequence[Any]:
        return self.unseen if unseen else self.seen

    def pick(self, rng: random.Random, unseen: bool) -> Any:
        return rng.choice(self.of(unseen))


def kinds(name: str, which: str = "asks") -> Kinds:
    """Return the phrasings or fields of a skill from the data file."""
    return Kinds(**TEXTS[name][which])


def skill(
    name: str,
    title: str,
    make: Callable[[random.Random, bool], Example],
    grade: Callable[[Example, str], bool],
    weight: float = 1.0,
) -> Task:
    """Return a task from `make(rng, unseen)`; with `unseen`, it uses kinds that training never sees."""

    def make_unseen(rng: random.Random) -> Example:
        return replace(make(rng, True), unseen=True)

    return Task(name, title, lambda rng: make(rng, False), grade, weight, make_unseen)


def request(rng: random.Random, instruction: str, material: str) -> str:
    """Return an instruction with its material before or after it, in varied styles."""
    style = rng.random()
    if style < 0.1:
        instruction = (
            instruction[0].lower() + instruction[1:].rstrip(".") + rng.choice(("", " pls", " thx"))
        )
    elif style < 0.18:
        instruction = rng.choice(("Hi! ", "Hello, ", "Hey, ")) + instruction
    elif style < 0.26:
        instruction += rng.choice((" Thanks!", " Thank you.", " Nothing else, please."))
    if rng.random() < 0.25:
        return f"{material}\n\n{instruction}"
    if instruction[-1] not in "!?":
        instruction = instruction.rstrip(".:") + ":"
    return instruction + rng.choice(("\n", "\n\n")) + material


def unfenced(answer: str) -> str:
    """Return an answer without a code fence around it."""
    lines = answer.strip().splitlines()
    if len(lines) >= 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        lines = lines[1:-1]
    return "\n".join(line.rstrip() for line in lines)


def lines_of(answer: str) -> list[str]:
    """Return the non-blank lines of an answer, stripped."""
    return [line.strip() for line in unfenced(answer).splitlines() if line.strip()]


def python(code: str) -> str:
    """Return Python code in a fence."""
    return f"```python\n{code.rstrip()}\n```"


def and_list(items: Sequence[str]) -> str:
    """Return items as a list in a sentence."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
