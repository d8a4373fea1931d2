"""Quoting the sentence of a passage that states something."""

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills.common import kinds, request, skill, texts, unquoted
from mars_demo.tasks.skills.passages import filled, passage

ASKS, OPENINGS = kinds("quoting"), texts("quoting")["openings"]
SUBJECTS = kinds("quoting", "subjects")  # each as a question names it, with sentences that state it


def make(rng: random.Random, unseen: bool) -> Example:
    target = SUBJECTS.pick(rng, unseen)
    others = [subject for subject in SUBJECTS.seen if subject is not target]
    subjects = [target, *rng.sample(others, rng.randint(2, 5))]
    stated = [filled(rng, rng.choice(sentences)) for _, sentences in subjects]
    prompt = request(rng, ASKS.pick(rng, unseen), passage(rng, OPENINGS, stated), what=target[0])
    return Example("quoting", prompt, f'"{stated[0]}"', {"sentence": stated[0]})


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer is the right sentence, with or without quotation marks."""
    return unquoted(answer) == example.facts["sentence"]


TASK = skill("quoting", "The sentence that says it", make, grade)
