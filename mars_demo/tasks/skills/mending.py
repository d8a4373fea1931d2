"""Correcting capitals, spaces and punctuation in texts."""

import random
import re

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import LONGEST, kinds, request, skill

ASKS, SENTENCES = kinds("mending"), kinds("mending", "sentences")


def make(rng: random.Random, unseen: bool) -> Example:
    kinds = SENTENCES.of(unseen)
    chosen = rng.sample(kinds, rng.randint(2, 4))
    text = " ".join(_filled(rng, sentence) for sentence in chosen)
    prompt = request(rng, ASKS.pick(rng, unseen), _spoiled(rng, text))
    return Example("mending", prompt, text, {"text": text})


def _filled(rng: random.Random, sentence: str) -> str:
    first, second = rng.sample(words.FIRST_NAMES, 2)
    product, product2 = rng.sample([gift for gift in words.GIFTS if gift == gift.lower()], 2)
    return sentence.format(
        first=first,
        second=second,
        product=product,
        product2=product2,
        city=rng.choice(words.CITIES),
        day=rng.choice(words.DAYS),
        month=rng.choice(words.MONTHS),
        time=words.clock(rng),
    )


def _spoiled(rng: random.Random, text: str) -> str:
    """Return a text in lower case with wrong spaces, at times without its last full stop."""
    text = text.lower()[:-1] if rng.random() < 0.5 and text.endswith(".") else text.lower()
    text = re.sub(r"([.,?])", lambda mark: rng.choice((" ", "", "")) + mark[1], text)
    return re.sub(" ", lambda _: rng.choices((" ", "  ", "   "), (6, 2, 1))[0], text)


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer is the correct text, with or without quotation marks."""
    return answer[:LONGEST].strip().strip('"') == example.facts["text"]


TASK = skill("mending", "Texts mended", make, grade)
