"""Helpers shared by the skills: their texts, requests as people type them, and reading answers."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from mars_demo.core.assets import read_json
from mars_demo.tasks.common import Example, Task, stripped_lines

LONGEST = 4000  # graders read at most this many characters of an answer
HABITS = read_json("skills", "habits.json")  # greetings, reasons and thanks around a request


@dataclass(frozen=True)
class Kinds:
    """Phrasings or fields of a skill: those of training, and those only of held-out prompts."""

    seen: Sequence[Any]
    unseen: Sequence[Any]

    def of(self, unseen: bool) -> Sequence[Any]:
        return self.unseen if unseen else self.seen

    def pick(self, rng: random.Random, unseen: bool) -> Any:
        return rng.choice(self.of(unseen))


def texts(name: str) -> SimpleNamespace:
    """Return the phrasings, sentences and words of a skill from its data file, as attributes.

    Every object of "seen" and "unseen" is a `Kinds`.
    """
    return SimpleNamespace(**read_json("skills", f"{name}.json", object_hook=_with_kinds))


def _with_kinds(part: dict[str, Any]) -> dict[str, Any] | Kinds:
    return Kinds(**part) if part.keys() == {"seen", "unseen"} else part


def skill(
    name: str,
    title: str,
    make: Callable[[random.Random, bool], Example],
    grade: Callable[[Example, str], bool],
    follow_up: Callable[[random.Random, Example, bool], Example | None] | None = None,
) -> Task:
    """Return a task from `make(rng, unseen)`; with `unseen`, it uses kinds that training never sees.

    grade: returns whether an answer is right; it gets the first `LONGEST` characters.
    follow_up: returns a second request about an answered example, with its answer and facts, or None where
        it does not apply.
    """

    def make_follow_up(rng: random.Random, example: Example) -> Example:
        further = follow_up(rng, example, example.unseen)
        earlier = (example.prompt, example.answer)
        return replace(further, earlier=earlier, unseen=example.unseen) if further else example

    return Task(
        name,
        title,
        lambda rng: make(rng, False),
        lambda example, answer: grade(example, answer[:LONGEST]),
        make_unseen=lambda rng: replace(make(rng, True), unseen=True),
        make_follow_up=follow_up and make_follow_up,
    )


def is_inline(phrasing: str) -> bool:
    """Return whether a phrasing has its material inside a line, where only one line fits."""
    return re.search(r"[^\n]\{material\}|\{material\}[^\n]", phrasing) is not None


def request(rng: random.Random, phrasing: str, material: str = "", **fields: object) -> str:
    """Return a request in a phrasing, typed as people type.

    phrasing: a text with `fields` in braces. With `{material}` it says where the material stands, else the
        material comes before or after it. Only the phrasing gets typos, never fields or material.
    """
    text = _typed(rng, phrasing).format(**fields, material=material).strip()
    if "{material}" in phrasing or not material:
        return text
    if rng.random() < 0.3:
        return f"{material}{rng.choice(_BREAKS)}{text}"
    if text[-1] not in "!?:" and rng.random() < 0.8:
        text = text.rstrip(".") + ":"
    return text + rng.choice(_BREAKS) + material


_BREAKS = ("\n", "\n\n")


def _typed(rng: random.Random, phrasing: str) -> str:
    """Return a phrasing with a greeting, a reason or thanks, in lower case, or with a typo, at times."""
    style = rng.random()
    begins, ends = phrasing[0].isalpha(), phrasing[-1].isalpha() or phrasing[-1] in ".?!"
    if style < 0.12:
        phrasing = _outside_braces(phrasing, str.lower)
        if ends:
            phrasing = phrasing.rstrip(".?!") + rng.choice(("", "", " pls", " thx"))
    elif style < 0.2:
        phrasing = _outside_braces(phrasing, lambda part: _with_typo(rng, part))
    elif style < 0.28 and begins:
        phrasing = rng.choice(HABITS["greetings"]) + phrasing
    elif style < 0.36 and begins:
        phrasing = rng.choice(HABITS["reasons"]) + phrasing
    elif style < 0.44 and ends:
        if phrasing[-1].isalpha():
            phrasing += "."
        phrasing += rng.choice(HABITS["thanks"])
    return phrasing


def _outside_braces(phrasing: str, change: Callable[[str], str]) -> str:
    return "".join(
        part if part.startswith("{") else change(part) for part in re.split(r"(\{[^}]*\})", phrasing)
    )


def _with_typo(rng: random.Random, text: str) -> str:
    """Return a text in which one long word has two letters swapped, or one left out or doubled."""
    words = [match for match in re.finditer(r"[a-z]{5,}", text)]
    if not words:
        return text
    word = rng.choice(words)
    place = rng.randrange(word.start() + 1, word.end() - 1)
    first, second = text[place], text[place + 1]
    typo = rng.choice((second + first, second, first + first + second))
    return text[:place] + typo + text[place + 2 :]


def unfenced(answer: str) -> str:
    """Return an answer without a code fence around it."""
    lines = answer.strip().splitlines()
    if len(lines) >= 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        lines = lines[1:-1]
    return "\n".join(line.rstrip() for line in lines)


def lines_of(answer: str) -> list[str]:
    """Return the non-blank lines of an answer, stripped."""
    return stripped_lines(unfenced(answer))


def unquoted(answer: str) -> str:
    """Return an answer without quotation marks around it."""
    return answer.strip().strip('"“”')


def new_numbers(answer: str, source: str) -> set[str]:
    """Return the numbers of an answer that its source lacks."""
    return set(re.findall(r"\d+", answer)) - set(re.findall(r"\d+", source))


def python(code: str) -> str:
    """Return Python code in a fence."""
    return f"```python\n{code.rstrip()}\n```"


def with_bullets(bullet: str, items: Sequence[str]) -> str:
    """Return items as lines with bullets or numbers: "- {}" or "{n}. {}"."""
    return "\n".join(bullet.format(item, n=n) for n, item in enumerate(items, 1))


def written(rng: random.Random, items: Sequence[str], inline: bool, separators: Sequence[str]) -> str:
    """Return items in one line, or, unless `inline`, mostly as lines with or without bullets."""
    if inline or rng.random() < 0.25:
        return rng.choice(separators).join(items)
    return with_bullets(rng.choice(("{}", "{}", "- {}", "* {}", "• {}", "{n}. {}", "{n}) {}")), items)


def and_list(items: Sequence[str]) -> str:
    """Return items as a list in a sentence."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
