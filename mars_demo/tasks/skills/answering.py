"""Short answers to questions about a passage, copied from it."""

import random
import re

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills.common import kinds, request, skill, unquoted
from mars_demo.tasks.skills.passages import filled, passage

ASKS, FOLLOW_UPS = kinds("answering"), kinds("answering", "follow_ups")
TOPICS = kinds("answering", "topics")  # each with openings, and facts that its sentences state


def make(rng: random.Random, unseen: bool) -> Example:
    topic = TOPICS.pick(rng, unseen)
    chosen = rng.sample(topic["facts"], rng.randint(4, 6))
    questions, sentences = [], []
    for fact in chosen:
        value = filled(rng, fact["value"])
        sentences.append(rng.choice(fact["sentences"]).format(value))
        questions.append({"question": rng.choice(fact["questions"]), "what": fact["what"], "value": value})
    text = passage(rng, topic["openings"], sentences)
    return _asked(rng, ASKS.pick(rng, unseen), questions, text)


def _asked(rng: random.Random, phrasing: str, questions: list[dict], text: str = "") -> Example:
    """Return an example that asks the first question; the others are for follow-ups."""
    first, *others = questions
    prompt = request(rng, phrasing, text, question=first["question"], what=first["what"])
    return Example("answering", prompt, first["value"], {"value": first["value"], "others": others})


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example | None:
    """Return another question about the same passage."""
    others = example.facts["others"]
    return _asked(rng, FOLLOW_UPS.pick(rng, unseen), rng.sample(others, len(others))) if others else None


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer is the right value, at most with a preposition or an article."""
    value = re.escape(example.facts["value"])
    right = rf"((at|on|in|to|by|from|until|the|an?) )*{value}[.!]?"
    return bool(re.fullmatch(right, unquoted(answer), re.IGNORECASE))


TASK = skill("answering", "Questions about a text", make, grade, follow_up=follow_up)
