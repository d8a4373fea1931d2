"""Quoting the sentence of a passage that states something."""

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills.common import request, same, skill, texts, unquoted
from mars_demo.tasks.skills.passages import filled, passage

TEXT = texts("quoting")  # each subject as a question names it, with sentences that state it


def make(rng: random.Random, unseen: bool) -> Example:
    target = TEXT.subjects.pick(rng, unseen)
    others = [subject for subject in TEXT.subjects.seen if subject is not target]
    subjects = [target, *rng.sample(others, rng.randint(2, 5))]
    stated = [filled(rng, rng.choice(sentences)) for _, sentences in subjects]
    prompt = request(rng, TEXT.asks.pick(rng, unseen), passage(rng, TEXT.openings, stated), what=target[0])
    return Example("quoting", prompt, f'"{stated[0]}"')


TASK = skill("quoting", "The sentence that says it", make, same(unquoted))
