"""The sentence of a passage that says something, quoted."""

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import LONGEST, TEXTS, kinds, request, skill

TEXT = TEXTS["quoting"]
PLACES, COLORS, ASKS = TEXT["places"], TEXT["colors"].split(), kinds("quoting")
SUBJECTS = kinds("quoting", "subjects")  # how a question refers to each, and sentences that state it


def make(rng: random.Random, unseen: bool) -> Example:
    place = rng.choice(PLACES)
    asked = SUBJECTS.pick(rng, unseen)
    others = [subject for subject in SUBJECTS.seen if subject is not asked]
    subjects = [asked, *rng.sample(others, rng.randint(2, 5))]
    said = [_filled(rng, rng.choice(sentences)) for _, sentences in subjects]
    rest = said[1:]
    rest.insert(rng.randint(0, len(rest)), said[0])
    opening = rng.choice(
        ("This is about the {} of our town.", "The {} has a long story.", "Our {} in short:")
    )
    passage = " ".join([opening.format(place), *rest])
    prompt = request(rng, ASKS.pick(rng, unseen).format(what=asked[0]), passage)
    return Example("quoting", prompt, f'"{said[0]}"', {"sentence": said[0]})


def _filled(rng: random.Random, sentence: str) -> str:
    return sentence.format(
        clock=words.clock(rng),
        day=rng.choice(words.DAYS),
        number=rng.randint(2, 60),
        person=words.person(rng),
        year=rng.randint(1890, 2024),
        address=words.address(rng),
        city=rng.choice(words.CITIES),
        color=rng.choice(COLORS),
        email=words.email(rng),
        month=rng.choice(words.MONTHS),
        product=rng.choice(words.GIFTS),
    )


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer is the sentence, with or without quotation marks."""
    return answer[:LONGEST].strip().strip('"“”') == example.facts["sentence"]


TASK = skill("quoting", "The sentence that says it", make, grade)
