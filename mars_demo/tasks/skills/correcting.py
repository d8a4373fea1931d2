"""Correcting misspelled words and common slips of grammar."""

import random
import re

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills.common import request, same, skill, texts, unquoted
from mars_demo.tasks.skills.passages import filled

TEXT = texts("correcting")
MISTAKES = TEXT.spelling | TEXT.grammar
PATTERNS = {
    right: re.compile(rf"(?<![\w']){re.escape(right)}(?![\w'])", re.IGNORECASE) for right in MISTAKES
}
# The phrasings of each chore: a sentence to correct, whether a word is right, and how it is spelled.
CHORES = {"asks": TEXT.asks, "word_asks": TEXT.word_asks, "spelling_asks": TEXT.spelling_asks}


def make(rng: random.Random, unseen: bool) -> Example:
    chore = rng.choices(list(CHORES), (8, 1, 1))[0]
    return _example(rng, chore, CHORES[chore].pick(rng, unseen), unseen)


def _example(rng: random.Random, chore: str, phrasing: str, unseen: bool) -> Example:
    if chore == "asks":
        chosen = rng.sample(TEXT.sentences.of(unseen), rng.choice((1, 1, 1, 2)))
        text = answer = " ".join(filled(rng, sentence) for sentence in chosen)
        typed = _with_mistakes(rng, text)
    else:
        right = rng.choice(list(TEXT.spelling))
        typed = right if rng.random() < 0.4 else rng.choice(TEXT.spelling[right])
        verdict = f"{'Yes' if typed == right else 'No'}. The right spelling is {right}."
        answer = verdict if chore == "word_asks" else right
    material = "" if "{word}" in phrasing else typed
    prompt = request(rng, phrasing, material, word=typed)
    return Example("correcting", prompt, answer, {"chore": chore})


def _with_mistakes(rng: random.Random, text: str) -> str:
    """Return a text with one to three mistakes, at times without first capital and last stop."""
    made: list[tuple[int, int, str]] = []
    possible, count = _possible_mistakes(rng, text), rng.randint(1, 3)
    for start, end, wrong in rng.sample(possible, len(possible)):
        if len(made) < count and all(end <= other[0] or other[1] <= start for other in made):
            made.append((start, end, wrong))
    for start, end, wrong in sorted(made, reverse=True):
        text = text[:start] + wrong + text[end:]
    return text[0].lower() + text[1:].removesuffix(".") if rng.random() < 0.25 else text


def _possible_mistakes(rng: random.Random, text: str) -> list[tuple[int, int, str]]:
    mistakes = []
    for right, pattern in PATTERNS.items():
        for found in pattern.finditer(text):
            wrong = rng.choice(MISTAKES[right])
            if found[0] != right:  # a capital at the start of a sentence
                wrong = wrong[0].upper() + wrong[1:]
            mistakes.append((found.start(), found.end(), wrong))
    return mistakes


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example:
    """Return another sentence or word for the same chore."""
    return _example(rng, example.facts["chore"], TEXT.follow_ups.pick(rng, unseen), unseen)


def _plain(answer: str) -> str:
    """Return an answer without quotation marks and last full stop."""
    return unquoted(answer).removesuffix(".")


TASK = skill("correcting", "Mistakes corrected", make, same(_plain), follow_up)
