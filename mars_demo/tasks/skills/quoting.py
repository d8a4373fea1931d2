"""Quoting the sentence of a passage that states something."""

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import LONGEST, kinds, request, skill, texts

TEXT = texts("quoting")
PLACES, COLORS, ASKS = TEXT["places"], TEXT["colors"].split(), kinds("quoting")
SUBJECTS = kinds("quoting", "subjects")  # each as a question names it, with sentences that state it


def make(rng: random.Random, unseen: bool) -> Example:
    place = rng.choice(PLACES)
    target = SUBJECTS.pick(rng, unseen)
    others = [subject for subject in SUBJECTS.seen if subject is not target]
    subjects = [target, *rng.sample(others, rng.randint(2, 5))]
    stated = [_filled(rng, rng.choice(sentences)) for _, sentences in subjects]
    rest = stated[1:]
    rest.insert(rng.randint(0, len(rest)), stated[0])
    opening = rng.choice(
        ("This is about the {} of our town.", "The {} has a long story.", "Our {} in short:")
    )
    passage = " ".join([opening.format(place), *rest])
    prompt = request(rng, ASKS.pick(rng, unseen), passage, what=target[0])
    return Example("quoting", prompt, f'"{stated[0]}"', {"sentence": stated[0]})


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
    """Return whether the answer is the right sentence, with or without quotation marks."""
    return answer[:LONGEST].strip().strip('"“”') == example.facts["sentence"]


TASK = skill("quoting", "The sentence that says it", make, grade)
