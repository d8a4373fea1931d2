"""Helpers shared by all tasks: examples, tasks, common words, and phrasings of questions."""

import itertools
import pkgutil
import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from mars_demo.core.assets import read_json


@dataclass(frozen=True)
class Example:
    """A problem: the prompt, a worked answer, and facts for the grader and for a second turn."""

    task: str
    prompt: str
    answer: str
    facts: dict = field(default_factory=dict)
    unseen: bool = False  # whether its kind of phrasing or field never occurs in training
    earlier: tuple[str, ...] = ()  # the turns before the prompt: a request and its answer

    @property
    def messages(self) -> list[dict[str, str]]:
        """Return the conversation up to the prompt, with the roles of a chat template."""
        roles = itertools.cycle(("user", "assistant"))
        return [{"role": role, "content": text} for role, text in zip(roles, (*self.earlier, self.prompt))]


@dataclass(frozen=True)
class Task:
    """A kind of problem, with a maker of examples and a grader of answers.

    `make` draws an example, `make_unseen` one of a kind that training never sees, `make_follow_up` adds a
    second turn to an example, and `grade` returns whether an answer is right.
    """

    name: str
    title: str
    make: Callable[[random.Random], Example]
    grade: Callable[[Example, str], bool]
    weight: float = 1.0
    make_unseen: Callable[[random.Random], Example] | None = None
    make_follow_up: Callable[[random.Random, Example], Example] | None = None


def tasks_in(package: str, path: Iterable[str]) -> dict[str, Task]:
    """Return the tasks that the modules of a package have, in alphabetical order."""
    modules = [import_module(f"{package}.{found.name}") for found in pkgutil.iter_modules(path)]
    tasks = [value for module in modules for value in vars(module).values() if isinstance(value, Task)]
    return {task.name: task for task in sorted(tasks, key=lambda task: task.name)}


TEXTS = read_json("tasks.json")  # phrasings, words and tables, by task
_WORDS = TEXTS["words"]
PEOPLE = [tuple(person.split()) for person in _WORDS["people"].split(", ")]  # names and pronouns
NAMES = tuple(name for name, _ in PEOPLE)
DAYS = tuple(_WORDS["days"].split())
# Few, because a small model copies only words that it meets often; two for each of many initials, so that
# lists with different initials are easy to draw.
NOUNS = tuple(_WORDS["nouns"].split())
WORDS = tuple(_WORDS["words"].split())  # to spell; two tasks use them, so each spelling is learned twice
_ONES, _TENS = _WORDS["ones"].split(), _WORDS["tens"].split()


def ask(rng: random.Random, phrasings: Sequence[str], **details: object) -> str:
    """Return a question in one of its phrasings, typed sloppily or politely at times."""
    text = rng.choice(phrasings).format(**details)
    style = rng.random()
    if style < 0.12:
        return text.lower().rstrip(".?!") + rng.choice(("", " thx"))
    if style < 0.20:
        return rng.choice(("Hi! ", "Hello! ", "Hey there! ")) + text
    if style < 0.28:
        return text + rng.choice((" Thanks!", " Thank you."))
    return text


def concluding(task: str, prompt: str, steps: str, conclusion: str) -> Example:
    """Return an example whose answer is right if it ends with `conclusion`."""
    answer = f"{steps} {conclusion}" if steps else conclusion
    return Example(task, prompt, answer, {"conclusion": conclusion})


def concludes(example: Example, answer: str) -> bool:
    answer, conclusion = answer.rstrip(), example.facts["conclusion"]
    before = answer[: -len(conclusion)]
    return answer.endswith(conclusion) and (not before or before[-1].isspace())


def same(read: Callable[..., Any], fact: str | None = None) -> Callable[[Example, str], bool]:
    """Return a grader of answers from which `read` has to return the same as from the right one.

    read: may raise what parsers do for an answer that it cannot read; it never runs code.
    fact: the name of a fact of the example that `read` needs besides the answer.
    """

    def grade(example: Example, answer: str) -> bool:
        facts = [] if fact is None else [example.facts[fact]]
        try:
            return read(answer, *facts) == read(example.answer, *facts)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return False

    return grade


def quantity(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def capitalized(text: str) -> str:
    """Return a text with a first capital; the rest stays."""
    return text[:1].upper() + text[1:]


def article(noun: str) -> str:
    return "an" if noun.startswith(tuple("aeiouE")) else "a"


def ordinal(number: int) -> str:
    """Return "1st" for 1."""
    is_teen = number % 100 in (11, 12, 13)
    return f"{number}th" if is_teen else f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def listed(items: Sequence[object]) -> str:
    return ", ".join(map(str, items))


def stripped_lines(text: str) -> list[str]:
    """Return the non-blank lines of a text, stripped."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text, including an unfinished last one."""
    return [part for part in re.split(r"(?<=[.?!])\s+", text.strip()) if part]


def in_words(number: int) -> str:
    """Return a number from 0 to 9999 in words: 4203 is "four thousand two hundred and three"."""
    if number < 20:
        return _ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS[tens] + (f"-{_ONES[ones]}" if ones else "")
    if number < 1000:
        hundreds, rest = divmod(number, 100)
        return f"{_ONES[hundreds]} hundred" + (f" and {in_words(rest)}" if rest else "")
    thousands, rest = divmod(number, 1000)
    link = " and " if 0 < rest < 100 else " "
    return f"{_ONES[thousands]} thousand" + (link + in_words(rest) if rest else "")
