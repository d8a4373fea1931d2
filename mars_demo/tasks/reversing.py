"""Lists in reverse order and words spelled backwards."""

import random

from mars_demo.tasks.common import NOUNS, TEXTS, WORDS, Example, Task, ask, concludes, concluding, listed

SHORT_WORDS = tuple(word for word in WORDS if 3 <= len(word) <= 6)
ASKS = TEXTS["reversing"]


def make(rng: random.Random) -> Example:
    return _backwards(rng) if rng.random() < 0.3 else _reversed_list(rng)


def _reversed_list(rng: random.Random) -> Example:
    if rng.random() < 0.7:
        items = rng.sample(NOUNS, rng.randint(3, 5))
    else:
        items = rng.sample(range(10, 100), rng.randint(3, 6))
    prompt = ask(rng, ASKS["lists"], items=listed(items))
    steps = f"The list is {listed(items)}."
    return concluding("reversing", prompt, steps, f"In reverse order: {listed(items[::-1])}.")


def _backwards(rng: random.Random) -> Example:
    word = rng.choice(SHORT_WORDS)
    prompt = ask(rng, ASKS["words"], word=word)
    steps = f"The word {word} is spelled {'-'.join(word)}."
    return concluding("reversing", prompt, steps, f"Backwards it is {'-'.join(word[::-1])}.")


TASK = Task("reversing", "Reversing lists and words", make, concludes, 1.5)
