"""Sentences with slots for names, times and things, and passages made of them."""

import random
from collections.abc import Sequence

from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import texts

# The drawing of each slot. A thing has the article "a".
SLOTS = words.drawings(
    texts("passages").slots, thing=words.one_of([gift for gift in words.ONE_GIFT if gift.islower()])
)


def values(rng: random.Random) -> dict[str, str]:
    """Return a value for each slot, and another one for the slot with a 2 after its name."""
    drawn = {}
    for slot, draw in SLOTS.items():
        drawn[slot] = other = draw(rng)
        while other == drawn[slot]:
            other = draw(rng)
        drawn[f"{slot}2"] = other
    return drawn


def filled(rng: random.Random, sentence: str) -> str:
    """Return a sentence with a value in each slot."""
    return sentence.format(**values(rng))


def passage(rng: random.Random, openings: Sequence[str], sentences: Sequence[str]) -> str:
    """Return an opening and the sentences in any order, at times each on its own line."""
    opening = filled(rng, rng.choice(openings))
    return rng.choice((" ", " ", " ", "\n")).join([opening, *rng.sample(sentences, len(sentences))])
