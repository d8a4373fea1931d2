"""Sorting short lists of numbers or words."""

import random

from mars_demo.tasks.common import NOUNS, TEXTS, Example, Task, ask, concludes, concluding, listed

ASKS = TEXTS["sorting"]  # by the beginning of the answer


def make(rng: random.Random) -> Example:
    order = rng.choices(list(ASKS), (2, 2, 6))[0]
    alphabetical = order == "In alphabetical order"
    items = (
        _words_to_sort(rng, rng.randint(3, 4)) if alphabetical else _numbers_to_sort(rng, rng.randint(3, 5))
    )
    ordered = sorted(items, reverse=order == "From largest to smallest")
    prompt = ask(rng, ASKS[order], items=listed(items))
    steps = f"The list is {listed(items)}."
    return concluding("sorting", prompt, steps, f"{order}: {listed(ordered)}.")


def _numbers_to_sort(rng: random.Random, count: int) -> list[int]:
    """Return two-digit numbers, mostly with different tens, which are easier to sort."""
    if rng.random() < 0.1:
        return rng.sample(range(10, 100), count)
    return [10 * tens + rng.randint(0, 9) for tens in rng.sample(range(1, 10), count)]


def _words_to_sort(rng: random.Random, count: int) -> list[str]:
    by_initial: dict[str, str] = {}
    for word in rng.sample(NOUNS, len(NOUNS)):
        by_initial.setdefault(word[0], word)
    return list(by_initial.values())[:count]


TASK = Task("sorting", "Sorting lists", make, concludes, 2.0)
