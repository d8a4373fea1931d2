"""Short lists sorted or reversed, and words spelled backwards."""

import random

from mars_demo.tasks.common import NOUNS, TEXTS, WORDS, Example, Task, ask, concludes, concluding, listed

SHORT_WORDS = tuple(word for word in WORDS if 3 <= len(word) <= 6)
SORTING, REVERSING = TEXTS["sorting"], TEXTS["reversing"]  # sorting: by the beginning of the answer


def _sorted_list(rng: random.Random) -> Example:
    order = rng.choices(list(SORTING), (2, 2, 6))[0]
    draw, longest = (_words, 4) if order == "In alphabetical order" else (_numbers, 5)
    items = draw(rng, rng.randint(3, longest))
    ordered = sorted(items, reverse=order == "From largest to smallest")
    prompt = ask(rng, SORTING[order], items=listed(items))
    return concluding("sorting", prompt, f"The list is {listed(items)}.", f"{order}: {listed(ordered)}.")


def _numbers(rng: random.Random, count: int) -> list[int]:
    """Return two-digit numbers, mostly with different tens, which are easier to sort."""
    if rng.random() < 0.1:
        return rng.sample(range(10, 100), count)
    return [10 * tens + rng.randint(0, 9) for tens in rng.sample(range(1, 10), count)]


def _words(rng: random.Random, count: int) -> list[str]:
    by_initial: dict[str, str] = {}
    for word in rng.sample(NOUNS, len(NOUNS)):
        by_initial.setdefault(word[0], word)
    return list(by_initial.values())[:count]


def _reversed(rng: random.Random) -> Example:
    return _backwards(rng) if rng.random() < 0.3 else _reversed_list(rng)


def _reversed_list(rng: random.Random) -> Example:
    if rng.random() < 0.7:
        items = rng.sample(NOUNS, rng.randint(3, 5))
    else:
        items = rng.sample(range(10, 100), rng.randint(3, 6))
    prompt = ask(rng, REVERSING["lists"], items=listed(items))
    steps = f"The list is {listed(items)}."
    return concluding("reversing", prompt, steps, f"In reverse order: {listed(items[::-1])}.")


def _backwards(rng: random.Random) -> Example:
    word = rng.choice(SHORT_WORDS)
    prompt = ask(rng, REVERSING["words"], word=word)
    steps = f"The word {word} is spelled {'-'.join(word)}."
    return concluding("reversing", prompt, steps, f"Backwards it is {'-'.join(word[::-1])}.")


SORTED = Task("sorting", "Sorting lists", _sorted_list, concludes, 2.0)
REVERSED = Task("reversing", "Reversing lists and words", _reversed, concludes, 1.5)
