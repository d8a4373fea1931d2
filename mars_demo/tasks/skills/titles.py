"""Titles of notices, recipes and news, and subject lines of emails."""

import random
import re

from mars_demo.tasks.common import Example, sentences_of
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import new_numbers, request, skill, texts
from mars_demo.tasks.skills.passages import values

TEXT = texts("titles")
SMALL = "a an and for in of on the to with".split()  # uncapitalized in titles


def make(rng: random.Random, unseen: bool) -> Example:
    kind = TEXT.kinds.pick(rng, unseen)
    slots = _values(rng)
    more = rng.sample(kind["more"], rng.randint(0, min(3, len(kind["more"]))))
    body = " ".join([rng.choice(kind["texts"]), *more]).format(**slots)
    if kind["what"] == "email" and rng.random() < 0.5:
        body = _as_letter(rng, body, slots["first"])
    line = rng.choice(TEXT.lines[kind["what"]])
    prompt = request(rng, TEXT.asks.pick(rng, unseen), body, what=kind["what"], line=line)
    title = kind["title"].format(**{slot: _in_title_case(value) for slot, value in slots.items()})
    facts = {
        "keys": [slots[key] for key in kind["keys"]],
        "word": kind.get("word", "").format(**slots).lower(),
        "body": body,
    }
    return Example("titles", prompt, title, facts)


def _values(rng: random.Random) -> dict[str, str]:
    slots = values(rng) | {slot: rng.choice(possible) for slot, possible in TEXT.slots.items()}
    for team, city in (("team", "city"), ("team2", "city2")):
        slots[team] = f"{slots[city]} {rng.choice(TEXT.slots['mascot'])}"
    slots["score"] = f"{rng.randint(3, 6)}:{rng.randint(0, 2)}"
    return slots


def _as_letter(rng: random.Random, body: str, mentioned: str) -> str:
    to, sender = rng.sample([name for name in words.FIRST_NAMES if name != mentioned], 2)
    greeting, closing = rng.choice((("Hi", "Best,"), ("Dear", "Kind regards,"), ("Hello", "Thanks,")))
    return f"{greeting} {to},\n\n{body}\n\n{closing}\n{sender}"


def _in_title_case(text: str) -> str:
    return " ".join(word if word in SMALL else word[0].upper() + word[1:] for word in text.split())


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer is a line of at most ten words with every key.

    A sentence of the text, or a number that is not in the text, is wrong.
    """
    title = answer.strip().strip('"“”*').lower()
    facts = example.facts
    keys = (rf"(?<!\w){re.escape(key.lower())}(?!\w)" for key in facts["keys"])
    sentences = [part for line in facts["body"].lower().splitlines() for part in sentences_of(line)]
    return (
        "\n" not in title
        and len(title.split()) <= 10
        and not new_numbers(title, facts["body"])
        and title.rstrip(".!?") not in (sentence.rstrip(".!?") for sentence in sentences)
        and all(re.search(key, title) for key in (*keys, facts["word"]))
    )


TASK = skill("titles", "Titles and subjects", make, grade)
