"""Numbers from digits to words and back."""

import random

from mars_demo.tasks.common import TEXTS, Example, Task, ask, concludes, concluding, in_words

ASKS = TEXTS["number-words"]


def make(rng: random.Random) -> Example:
    # Longer numbers are more frequent, because there are more of them to learn.
    low, high = rng.choices(((0, 9), (10, 99), (100, 999), (1000, 9999)), (1, 3, 5, 6))[0]
    number = rng.randint(low, high)
    digits, words = f"{number:,}", in_words(number)
    if rng.random() < 0.5:
        typed = digits if rng.random() < 0.6 else str(number)
        prompt = ask(rng, ASKS["words"], number=typed)
        return concluding("number-words", prompt, "", f"In words, {digits} is {words}.")
    prompt = ask(rng, ASKS["digits"], words=words)
    return concluding("number-words", prompt, "", f"In digits, {words} is {digits}.")


TASK = Task("number-words", "Numbers in words", make, concludes)
