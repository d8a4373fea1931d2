"""Texts in another case, and names as initials or with the last name first."""

import random
import re
from string import capwords

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import is_inline, lines_of, request, skill, texts
from mars_demo.tasks.skills.counting import TEXT as COUNTING
from mars_demo.tasks.skills.counting import random_sentence

TEXT = texts("case")
ADJECTIVES, SUBJECTS, THINGS = (text.split() for text in (TEXT.adjectives, TEXT.subjects, TEXT.things))
# Sentences without names, so that only their first letter is a capital.
PLAIN = [text for text in COUNTING.sentences if "{" not in text and not re.search(r"\bI\b", text)]
# The change of each chore.
CHANGES = {
    "upper": str.upper,
    "lower": str.lower,
    "title": capwords,
    "sentence": str.capitalize,
    "last first": lambda name: f"{name.split()[1]}, {name.split()[0]}",
    "initials": lambda name: "".join(f"{part[0]}." for part in name.split()),
    "snake": lambda text: text.lower().replace(" ", "_"),
    "kebab": lambda text: text.lower().replace(" ", "-"),
}


def make(rng: random.Random, unseen: bool) -> Example:
    chore = rng.choice(list(TEXT.asks))
    phrasing = TEXT.asks[chore].pick(rng, unseen)
    count = 1 if chore != "last first" or is_inline(phrasing) else rng.randint(1, 3)
    given = [_text(rng, chore) for _ in range(count)]
    prompt = request(rng, phrasing, "\n".join(given))
    answer = "\n".join(map(CHANGES[chore], given))
    return Example("case", prompt, answer, {"chore": chore})


def _text(rng: random.Random, chore: str) -> str:
    match chore:
        case "last first":
            return words.person(rng)
        case "initials":
            middle = f"{rng.choice(words.FIRST_NAMES)} " if rng.random() < 0.3 else ""
            return middle + words.person(rng)
        case "sentence":
            return rng.choice((str.upper, str.upper, str.lower, capwords))(rng.choice(PLAIN))
        case "upper":
            return (
                random_sentence(rng)
                if rng.random() < 0.6
                else rng.choice((str, str.capitalize))(_phrase(rng))
            )
        case "lower":
            change = rng.choice((str, str.upper, str.upper))
            return change(rng.choice((random_sentence(rng), capwords(_phrase(rng)))))
        case "title":
            return rng.choice((str, str, str.capitalize, str.upper))(_phrase(rng))
    return rng.choice((str, str.capitalize, capwords))(_phrase(rng))


def _phrase(rng: random.Random) -> str:
    subjects = rng.sample(SUBJECTS, rng.choice((0, 1, 1)))
    return " ".join((rng.choice(ADJECTIVES), *subjects, rng.choice(THINGS)))


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer is the changed text; initials may have other dots and spaces."""
    lines = [line.strip("\"'`“”") for line in lines_of(answer)]
    if example.facts["chore"] == "initials":
        return [re.sub(r"[.\s]", "", line) for line in lines] == [example.answer.replace(".", "")]
    return lines == example.answer.splitlines()


TASK = skill("case", "Capitals and names", make, grade)
