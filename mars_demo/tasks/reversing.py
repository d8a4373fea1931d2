"""Lists in reverse order and words spelled backwards."""

from __future__ import annotations

import random

from mars_demo.tasks.common import NOUNS, WORDS, Example, Task, ask, concludes, concluding, listed

SHORT_WORDS = tuple(word for word in WORDS if 3 <= len(word) <= 6)

LIST_ASKS = (
    "Reverse this list: {items}",
    "Reverse the order of {items}.",
    "Can you write {items} in reverse order?",
    "Write this list backwards: {items}",
    "What is {items} in reverse order?",
    "pls reverse {items}",
)
WORD_ASKS = (
    "Spell {word} backwards.",
    "How do you spell {word} backwards?",
    "Can you spell the word {word} backwards?",
    "Reverse the letters of {word}.",
    "What is the word {word} spelled backwards?",
    "Write the letters of the word {word} in reverse order, please.",
)


def make(rng: random.Random) -> Example:
    return _backwards(rng) if rng.random() < 0.3 else _reversed_list(rng)


def _reversed_list(rng: random.Random) -> Example:
    if rng.random() < 0.7:
        items = rng.sample(NOUNS, rng.randint(3, 5))
    else:
        items = rng.sample(range(10, 100), rng.randint(3, 6))
    prompt = ask(rng, LIST_ASKS, items=listed(items))
    steps = f"The list is {listed(items)}."
    return concluding("reversing", prompt, steps, f"In reverse order: {listed(items[::-1])}.")


def _backwards(rng: random.Random) -> Example:
    word = rng.choice(SHORT_WORDS)
    prompt = ask(rng, WORD_ASKS, word=word)
    steps = f"The word {word} is spelled {'-'.join(word)}."
    return concluding("reversing", prompt, steps, f"Backwards it is {'-'.join(word[::-1])}.")


TASK = Task("reversing", "Reversing lists and words", make, concludes, 1.5)
