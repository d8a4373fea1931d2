"""Numbers from digits to words and back."""

from __future__ import annotations

import random

from mars_demo.tasks.common import Example, Task, ask, concludes, concluding, in_words

TO_WORDS_ASKS = (
    "How do you write {number} in words?",
    "Write {number} in words.",
    "Can you spell out the number {number}?",
    "What is {number} in words?",
    "Please write the number {number} as words.",
)
TO_DIGITS_ASKS = (
    "Write {words} in digits.",
    "What is {words} as a number?",
    "How do you write {words} in digits?",
    "Can you turn {words} into digits?",
    "Please give me the number {words} in figures.",
)


def make(rng: random.Random) -> Example:
    # Longer numbers are drawn more often, because there are more of them to learn.
    low, high = rng.choices(((0, 9), (10, 99), (100, 999), (1000, 9999)), (1, 3, 5, 6))[0]
    number = rng.randint(low, high)
    digits, words = f"{number:,}", in_words(number)
    if rng.random() < 0.5:
        typed = digits if rng.random() < 0.6 else str(number)
        prompt = ask(rng, TO_WORDS_ASKS, number=typed)
        return concluding("number-words", prompt, "", f"In words, {digits} is {words}.")
    prompt = ask(rng, TO_DIGITS_ASKS, words=words)
    return concluding("number-words", prompt, "", f"In digits, {words} is {digits}.")


TASK = Task("number-words", "Numbers in words", make, concludes)
