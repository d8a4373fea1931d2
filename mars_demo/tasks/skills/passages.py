"""Sentences with slots for names, times and things, and passages made of them."""

import random
from collections.abc import Sequence

from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import texts

TEXT = texts("passages")
THINGS = [thing for thing in words.GIFTS if thing.islower() and not thing.endswith("s")]  # with "a"
JOBS = [job for job in words.GROUPS["jobs"].split() if job[0] not in "aeiou"]

# The generator of each slot.
SLOTS = {
    "clock": words.clock,
    "day": words.one_of(words.DAYS),
    "month": words.one_of(words.MONTHS),
    "date": lambda rng: words.long_date(words.date(rng)),
    "year": lambda rng: str(rng.randint(1890, 2024)),
    "number": lambda rng: str(rng.randint(10, 60)),
    "few": lambda rng: str(rng.randint(2, 9)),
    "amount": lambda rng: str(100 * rng.randint(4, 40)),
    "price": words.price,
    "address": words.address,
    "street": lambda rng: f"{rng.choice(words.STREETS)} Street",
    "city": words.one_of(words.CITIES),
    "place": words.one_of(TEXT["places"]),
    "company": words.one_of(words.COMPANIES),
    "person": words.person,
    "first": words.one_of(words.FIRST_NAMES),
    "last": words.one_of(words.LAST_NAMES),
    "email": words.email,
    "phone": lambda rng: f"555-{rng.randint(100, 999)}-{rng.randint(1000, 9999)}",
    "code": words.code,
    "color": words.one_of(TEXT["colors"].split()),
    "thing": words.one_of(THINGS),
    "job": words.one_of(JOBS),
}


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
