"""Counting how often a letter appears in a word."""

import random

from mars_demo.tasks.common import TEXTS, WORDS, Example, Task, ask, concludes, concluding, listed, quantity

ASKS = TEXTS["letters"]


def make(rng: random.Random) -> Example:
    word = rng.choice(WORDS)
    # At times the letter is not in the word.
    letter = rng.choice("abcdefghiklmnoprstuwy" if rng.random() < 0.15 else word)
    shown, times = [], 0
    for spelled in word:
        times += spelled == letter
        shown.append(f"{spelled} ({times})" if spelled == letter else spelled)
    prompt = ask(rng, ASKS, letter=letter, word=word)
    steps = f"Spelling {word}: {listed(shown)}."
    conclusion = f"The letter {letter} appears {quantity(times, 'time')} in {word}."
    return concluding("letters", prompt, steps, conclusion)


TASK = Task("letters", "Counting letters", make, concludes, 1.25)
