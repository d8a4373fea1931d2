"""Times tables, multiples and the odd or even numbers of a range."""

from __future__ import annotations

import random

from mars_demo.tasks.common import Example, Task, ask, concludes, concluding, listed

TABLE_ASKS = (
    "Write the {n} times table up to {rows}.",
    "Write the {n} times table from 1 to {rows}.",
    "Can you show me the {n} times table up to {rows}?",
    "Give me the multiplication table of {n} up to {rows}.",
    "I need the {n} times table, {rows} rows.",
    "Multiplication table for {n}, first {rows} lines, please.",
    "List the first {rows} lines of the table of {n}.",
    "pls write the {n} times table up to {rows}",
)
STEP_ASKS = (
    "Count by {n} up to {last}.",
    "Count from {n} to {last} in steps of {n}.",
    "Can you count by {n} until {last}?",
    "Skip count by {n} to {last}, please.",
    "Write the multiples of {n} up to {last}.",
    "List all multiples of {n} from {n} to {last}.",
)
PARITY_ASKS = (
    "List the {kind} numbers from {low} to {high}.",
    "Write all {kind} numbers from {low} to {high}.",
    "What are the {kind} numbers from {low} to {high}?",
    "Can you give me the {kind} numbers from {low} up to {high}?",
    "Show me every {kind} number from {low} to {high}.",
)


def make(rng: random.Random) -> Example:
    return rng.choices((_times_table, _multiples, _parity), (4, 2, 2))[0](rng)


def _times_table(rng: random.Random) -> Example:
    n, rows = rng.randint(2, 12), rng.randint(4, 10)
    prompt = ask(rng, TABLE_ASKS, n=n, rows=rows)
    lines = "\n".join(f"{n} x {row} = {n * row}" for row in range(1, rows + 1))
    conclusion = f"Here is the {n} times table up to {rows}:\n{lines}"
    return concluding("tables", prompt, "", conclusion)


def _multiples(rng: random.Random) -> Example:
    n, steps = rng.randint(2, 12), rng.randint(4, 10)
    prompt = ask(rng, STEP_ASKS, n=n, last=n * steps)
    counted = listed(range(n, n * steps + 1, n))
    return concluding("tables", prompt, "", f"Counting by {n} up to {n * steps}: {counted}.")


def _parity(rng: random.Random) -> Example:
    low = rng.randint(1, 80)
    high, odd = low + rng.randint(6, 19), rng.randrange(2)
    kind = "odd" if odd else "even"
    prompt = ask(rng, PARITY_ASKS, kind=kind, low=low, high=high)
    numbers = [number for number in range(low, high + 1) if number % 2 == odd]
    steps = f"The first one is {numbers[0]} and the last one is {numbers[-1]}."
    conclusion = f"The {kind} numbers from {low} to {high} are {listed(numbers)}."
    return concluding("tables", prompt, steps, conclusion)


TASK = Task("tables", "Number tables", make, concludes)
