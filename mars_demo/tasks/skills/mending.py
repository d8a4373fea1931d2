"""Correcting capitals, spaces and punctuation in texts."""

import random
import re

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills.common import kinds, request, skill, unquoted
from mars_demo.tasks.skills.passages import filled

ASKS, SENTENCES = kinds("mending"), kinds("mending", "sentences")


def make(rng: random.Random, unseen: bool) -> Example:
    chosen = rng.sample(SENTENCES.of(unseen), rng.choices((1, 2, 3), (3, 3, 1))[0])
    text = " ".join(filled(rng, sentence) for sentence in chosen)
    prompt = request(rng, ASKS.pick(rng, unseen), _spoiled(rng, text))
    return Example("mending", prompt, text, {"text": text})


def _spoiled(rng: random.Random, text: str) -> str:
    """Return a text with wrong capitals and wrong spaces, at times without its last mark."""
    text = rng.choices((str.lower, str.upper, _each_word_capitalized), (4, 1, 1))[0](text)
    if rng.random() < 0.5:
        text = text[:-1]
    text = re.sub(r"([.,?])( |$)", lambda mark: rng.choice((" ", "", "")) + mark[1] + mark[2], text)
    text = re.sub(r"([.,?]) ", lambda mark: mark[1] + rng.choice((" ", " ", "")), text)
    return re.sub(" ", lambda _: rng.choices((" ", "  ", "   "), (6, 2, 1))[0], text)


def _each_word_capitalized(text: str) -> str:
    return " ".join(word.capitalize() for word in text.split(" "))


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer is the correct text, with or without quotation marks."""
    return unquoted(answer) == example.facts["text"]


TASK = skill("mending", "Texts mended", make, grade)
