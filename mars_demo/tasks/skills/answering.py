"""Short answers to questions about a passage, copied from it."""

import random
import re

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills.common import request, skill, texts, unquoted
from mars_demo.tasks.skills.passages import filled, passage

TEXT = texts("answering")  # each topic with openings, and facts that its sentences state


def make(rng: random.Random, unseen: bool) -> Example:
    topic = TEXT.topics.pick(rng, unseen)
    questions, sentences = [], []
    for fact in rng.sample(topic["facts"], rng.randint(4, 6)):
        value = filled(rng, fact["value"])
        sentences.append(rng.choice(fact["sentences"]).format(value))
        questions.append({"question": rng.choice(fact["questions"]), "what": fact["what"], "value": value})
    text = passage(rng, topic["openings"], sentences)
    return _asked(rng, TEXT.asks.pick(rng, unseen), questions, text)


def _asked(rng: random.Random, phrasing: str, questions: list[dict], text: str = "") -> Example:
    """Return an example that asks the first question; the others are for follow-ups."""
    first, *others = questions
    return Example("answering", request(rng, phrasing, text, **first), first["value"], {"others": others})


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example | None:
    """Return another question about the same passage."""
    others = example.facts["others"]
    return (
        _asked(rng, TEXT.follow_ups.pick(rng, unseen), rng.sample(others, len(others))) if others else None
    )


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer is the right value, at most with a preposition or an article."""
    right = rf"((at|on|in|to|by|from|until|the|an?) )*{re.escape(example.answer)}[.!]?"
    return bool(re.fullmatch(right, unquoted(answer), re.IGNORECASE))


TASK = skill("answering", "Questions about a text", make, grade, follow_up)
