"""Tiny stories of three sentences with unpredictable words."""

import random
import re

from mars_demo.tasks.common import TEXTS, Example, Task, article, ask, capitalized, sentences_of

_TEXTS = TEXTS["stories"]
HEROES, OBJECTS = _TEXTS["heroes"].split(), _TEXTS["objects"].split()
# Every word of a story is drawn from one of these lists (or is the hero or the object), so that hardly any
# word is predictable.
WORDS = {slot: words.split() for slot, words in _TEXTS["words"].items()}
VOCABULARY = {word.lower() for words in (HEROES, OBJECTS, *WORDS.values()) for word in words}


def make(rng: random.Random) -> Example:
    cast = {"hero": rng.choice(HEROES), "object": rng.choice(OBJECTS)}
    prompt = ask(
        rng, _TEXTS["asks"], **{f"a_{part}": f"{article(noun)} {noun}" for part, noun in cast.items()}
    )
    skeletons = (rng.choice(part) for part in _TEXTS["sentences"])
    answer = " ".join(_sentence(rng, skeleton, cast) for skeleton in skeletons)
    return Example("stories", prompt, answer, cast)


def _sentence(rng: random.Random, skeleton: str, cast: dict[str, str]) -> str:
    def word(slot: re.Match[str]) -> str:
        return cast.get(slot[1]) or rng.choice(WORDS[slot[1]])

    return capitalized(re.sub(r"\{(\w+)\}", word, skeleton))


def grade(example: Example, answer: str) -> bool:
    text = answer.strip()
    sentences = sentences_of(text)
    words = [part.strip(",.") for part in text.lower().split()]
    return (
        len(sentences) == 3
        and all(re.fullmatch(r"[A-Z][A-Za-z, ]*\.", sentence) for sentence in sentences)
        and all(word in VOCABULARY for word in words)
        and example.facts["hero"] in words
        and example.facts["object"] in words
    )


TASK = Task("stories", "Tiny stories", make, grade)
