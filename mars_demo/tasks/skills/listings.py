"""Lists of items: drawn from word lists, as people type them, and as answers."""

import random
import re
from collections.abc import Sequence
from functools import partial

from mars_demo.tasks.common import Example, capitalized
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import and_list, is_inline, lines_of, texts, with_bullets

_TEXT = texts("lists")
_MEMBERS = {
    **{group: members for group, members in words.GROUPS.items() if group in _TEXT.nouns},
    "words": [word for group in ("animals", "tools", "colors") for word in words.GROUPS[group]],
    "products": words.PRODUCTS,
    "last names": words.LAST_NAMES,
    "companies": words.COMPANIES,
    "to-dos": _TEXT.todos,
}
GROUPS = tuple(_MEMBERS)
SHORT_GROUPS = tuple(group for group in GROUPS if group != "to-dos")  # whose members fit into a sentence
_CASES = (str, str.lower, capitalized)
# The forms of a list. An answer has the first one of each.
_FORMS = {
    "commas": (
        *(", ".join, ", ".join, and_list, and_list),
        lambda items: f"{', '.join(items[:-1])}, and {items[-1]}",
        *(separator.join for separator in (",", "; ", " / ", " | ")),
    ),
    "lines": ("\n".join, "\n".join, ",\n".join),
    "bullets": tuple(partial(with_bullets, bullet) for bullet in ("- {}", "* {}", "• {}", "– {}")),
    "numbers": (partial(with_bullets, "{n}. {}"), partial(with_bullets, "{n}) {}")),
    "sentence": (and_list,),
}
FORMS = ("commas", "commas", "lines", "bullets", "numbers")  # of a list as typed, with their shares
FORMS_OF_NUMBERS = FORMS[:-1]
_MARK = re.compile(r"(?:(?P<bullet>[-*•–])|(?P<number>\d+)[.)])\s+")


def draw_items(
    rng: random.Random, count: int, phrasing: str = "", groups: Sequence[str] = GROUPS
) -> tuple[dict[str, str], list[str]]:
    """Return the nouns for a group and `count` of its members, which have different initials.

    phrasing: where the members have to fit.
    """
    group = rng.choice(SHORT_GROUPS if is_inline(phrasing) else groups)
    members = {item[0]: item for item in rng.sample(_MEMBERS[group], len(_MEMBERS[group]))}
    change = rng.choices(_CASES, (8, 1, 1))[0]
    nouns = {"group": group, "one": _TEXT.nouns[group]}
    return nouns, [change(item) for item in rng.sample(list(members.values()), count)]


def numbers(rng: random.Random, count: int) -> tuple[dict[str, str], list[str]]:
    """Return the noun for numbers and `count` numbers below 100 with different tens."""
    tens = rng.sample(range(10), count)
    return {"group": rng.choice(_TEXT.numbers)}, [str(10 * ten + rng.randint(1, 9)) for ten in tens]


def form_for(rng: random.Random, phrasing: str, forms: Sequence[str] = FORMS) -> str:
    """Return one of the forms for a list, or "commas" where only one line fits into a phrasing."""
    return "commas" if is_inline(phrasing) else rng.choice(forms)


def typed(rng: random.Random, items: Sequence[str], form: str) -> str:
    """Return items in a form, with one of its separators or bullets."""
    if form == "commas" and rng.random() < 0.08 and not any(" " in item for item in items):
        return " ".join(items)
    return rng.choice(_FORMS[form])(items)


def as_listing(items: Sequence[str], form: str) -> str:
    """Return items in a form, as an answer has them."""
    return _FORMS[form][0](items)


def read_listing(answer: str) -> tuple[str, list[str]]:
    """Return the form and the items of an answer, with the items in lower case."""
    lines = lines_of(answer)
    marks = [_MARK.match(line) for line in lines]
    items = [line[mark.end() :] if mark else line for line, mark in zip(lines, marks)]
    if len(lines) == 1 and not marks[0]:
        form = "sentence" if re.search(r"\sand\s", lines[0]) else "commas"
        form = "row" if re.search(r"[;|/]", lines[0]) else form
        items = re.split(r"\s*[,;|/]\s*(?:and\s+)?|\s+and\s+", lines[0])
    elif all(mark and mark["bullet"] for mark in marks):
        form = "bullets"
    elif [mark and mark["number"] for mark in marks] == [str(i + 1) for i in range(len(marks))]:
        form = "numbers"
    else:
        form = "mixed" if any(marks) else "lines"
    return form, [item.strip(" \t\"'`“”,.").lower() for item in items]


def grade(example: Example, answer: str) -> bool:
    """Return whether an answer has exactly the right items, in the form that the request names, if any."""
    return holds(answer, example.facts["items"], example.facts["form"])


def holds(answer: str, items: Sequence[str], form: str | None = None) -> bool:
    """Return whether an answer is a list of exactly these items, in any form or in this one."""
    answered, values = read_listing(answer)
    return values == [item.lower() for item in items] and form in (None, answered)
