"""Numbers in words and back, times tables, multiples, and the odd or even numbers in a range."""

import random

from mars_demo.tasks.common import TEXTS, Example, Task, ask, concludes, concluding, in_words, listed

IN_WORDS, TABLES = TEXTS["number-words"], TEXTS["tables"]


def _number(rng: random.Random) -> Example:
    # Longer numbers are more frequent, because there are more of them to learn.
    low, high = rng.choices(((0, 9), (10, 99), (100, 999), (1000, 9999)), (1, 3, 5, 6))[0]
    number = rng.randint(low, high)
    digits, words = f"{number:,}", in_words(number)
    if rng.random() < 0.5:
        typed = digits if rng.random() < 0.6 else str(number)
        prompt = ask(rng, IN_WORDS["words"], number=typed)
        return concluding("number-words", prompt, "", f"In words, {digits} is {words}.")
    prompt = ask(rng, IN_WORDS["digits"], words=words)
    return concluding("number-words", prompt, "", f"In digits, {words} is {digits}.")


def _table(rng: random.Random) -> Example:
    return rng.choices((_times_table, _multiples, _parity), (4, 2, 2))[0](rng)


def _times_table(rng: random.Random) -> Example:
    n, rows = rng.randint(2, 12), rng.randint(4, 10)
    return concluding("tables", ask(rng, TABLES["table"], n=n, rows=rows), "", times_table(n, rows))


def _multiples(rng: random.Random) -> Example:
    n, steps = rng.randint(2, 12), rng.randint(4, 10)
    prompt = ask(rng, TABLES["multiples"], n=n, last=n * steps)
    return concluding("tables", prompt, "", multiples(n, steps))


def _parity(rng: random.Random) -> Example:
    low = rng.randint(1, 80)
    high, kind = low + rng.randint(6, 19), rng.choice(("even", "odd"))
    prompt = ask(rng, TABLES["parity"], kind=kind, low=low, high=high)
    return concluding("tables", prompt, *parity(kind, low, high))


def times_table(n: int, rows: int) -> str:
    lines = "\n".join(f"{n} x {row} = {n * row}" for row in range(1, rows + 1))
    return f"Here is the {n} times table up to {rows}:\n{lines}"


def multiples(n: int, steps: int) -> str:
    return f"Counting by {n} up to {n * steps}: {listed(range(n, n * steps + 1, n))}."


def parity(kind: str, low: int, high: int) -> tuple[str, str]:
    """Return the step and the conclusion of the odd or even numbers in a range."""
    numbers = [number for number in range(low, high + 1) if number % 2 == (kind == "odd")]
    return (
        f"The first one is {numbers[0]} and the last one is {numbers[-1]}.",
        f"The {kind} numbers from {low} to {high} are {listed(numbers)}.",
    )


NUMBER_WORDS = Task("number-words", "Numbers in words", _number, concludes)
NUMBER_TABLES = Task("tables", "Number tables", _table, concludes)
