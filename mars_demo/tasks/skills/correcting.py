"""Correcting texts: capitals, spaces and punctuation, or misspelled words and common slips of grammar."""

import random
import re
from string import capwords

from mars_demo.tasks.common import Example, capitalized, same
from mars_demo.tasks.skills.common import request, skill, texts, unquoted
from mars_demo.tasks.skills.passages import fill_sentence

MENDING, CORRECTING = texts("mending"), texts("correcting")
SPELLING = CORRECTING.spelling
MISTAKES = SPELLING | CORRECTING.grammar
PATTERNS = {
    right: re.compile(rf"(?<![\w']){re.escape(right)}(?![\w'])", re.IGNORECASE) for right in MISTAKES
}
# The phrasings of each chore: a sentence to correct, whether a word is right, and how it is spelled.
CHORES = {
    "asks": CORRECTING.asks,
    "word_asks": CORRECTING.word_asks,
    "spelling_asks": CORRECTING.spelling_asks,
}


def _text_to_mend(rng: random.Random, unseen: bool) -> Example:
    chosen = rng.sample(MENDING.sentences.of(unseen), rng.choices((1, 2, 3), (3, 3, 1))[0])
    text = " ".join(fill_sentence(rng, sentence) for sentence in chosen)
    return Example("mending", request(rng, MENDING.asks.pick(rng, unseen), _spoiled(rng, text)), text)


def _spoiled(rng: random.Random, text: str) -> str:
    """Return a text with wrong capitals and wrong spaces, at times without its last mark."""
    text = rng.choices((str.lower, str.upper, capwords), (4, 1, 1))[0](text)
    if rng.random() < 0.5:
        text = text[:-1]
    text = re.sub(r"([.,?])( |$)", lambda mark: rng.choice((" ", "", "")) + mark[1] + mark[2], text)
    text = re.sub(r"([.,?]) ", lambda mark: mark[1] + rng.choice((" ", " ", "")), text)
    return re.sub(" ", lambda _: rng.choices((" ", "  ", "   "), (6, 2, 1))[0], text)


def _text_to_correct(rng: random.Random, unseen: bool) -> Example:
    chore = rng.choices(list(CHORES), (8, 1, 1))[0]
    return _example(rng, chore, CHORES[chore].pick(rng, unseen), unseen)


def _example(rng: random.Random, chore: str, phrasing: str, unseen: bool) -> Example:
    if chore == "asks":
        chosen = rng.sample(CORRECTING.sentences.of(unseen), rng.choice((1, 1, 1, 2)))
        answer = " ".join(fill_sentence(rng, sentence) for sentence in chosen)
        typed = _with_mistakes(rng, answer)
    else:
        right = rng.choice(list(SPELLING))
        typed = right if rng.random() < 0.4 else rng.choice(SPELLING[right])
        verdict = f"{'Yes' if typed == right else 'No'}. The right spelling is {right}."
        answer = verdict if chore == "word_asks" else right
    prompt = request(rng, phrasing, "" if "{word}" in phrasing else typed, word=typed)
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
                wrong = capitalized(wrong)
            mistakes.append((*found.span(), wrong))
    return mistakes


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example:
    """Return another sentence or word for the same chore."""
    return _example(rng, example.facts["chore"], CORRECTING.follow_ups.pick(rng, unseen), unseen)


def _plain(answer: str) -> str:
    return unquoted(answer).removesuffix(".")


MENDED = skill("mending", "Texts mended", _text_to_mend, same(unquoted))
CORRECTED = skill("correcting", "Mistakes corrected", _text_to_correct, same(_plain), follow_up)
