"""Word problems of two or three steps of arithmetic, worked out one step at a time."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from mars_demo.tasks.common import NAMES, PEOPLE, Example, Task, ask, quantity

THINGS = tuple("apple marble sticker pencil cookie shell stamp button ticket balloon card coin".split())
HOLDERS = ("bag", "jar", "basket", "tray", "crate", "bucket")
GAINS = ("buys", "finds", "gets", "wins", "picks up")
LOSSES = ("gives away", "loses", "sells", "uses up")


@dataclass(frozen=True)
class Tale:
    """A word problem: phrasings of the question, the steps and the conclusion."""

    asks: tuple[str, ...]
    steps: str
    conclusion: str
    number: int


def _gain_then_lose(rng: random.Random, who: str, he: str, thing: str) -> Tale:
    start, more, less = rng.randint(10, 80), rng.randint(2, 9), rng.randint(2, 9)
    gains, loses = rng.choice(GAINS), rng.choice(LOSSES)
    middle, end = start + more, start + more - less
    return Tale(
        (
            f"{who} has {start} {thing}s. {he} {gains} {more} more and then {loses} {less}. "
            f"How many {thing}s does {who} have now?",
            f"If {who} starts with {start} {thing}s, {gains} {more} more and {loses} {less}, "
            f"how many {thing}s are left?",
            f"How many {thing}s does {who} have at the end? {he} has {start} at first, "
            f"{gains} {more} more, and {loses} {less}.",
        ),
        f"{who} starts with {start} {thing}s. {he} {gains} {more} more: "
        f"{start} + {more} = {middle}. {he} {loses} {less}: {middle} - {less} = {end}.",
        f"So {who} has {quantity(end, thing)} left.",
        end,
    )


def _lose_then_gain(rng: random.Random, who: str, he: str, thing: str) -> Tale:
    start, less, more = rng.randint(12, 80), rng.randint(2, 9), rng.randint(2, 9)
    gains, loses = rng.choice(GAINS), rng.choice(LOSSES)
    middle, end = start - less, start - less + more
    return Tale(
        (
            f"{who} has {start} {thing}s. {he} {loses} {less} and then {gains} {more} more. "
            f"How many {thing}s does {who} have now?",
            f"If {who} starts with {start} {thing}s, {loses} {less} and {gains} {more} more, "
            f"how many {thing}s does {who} have?",
            f"{who} {loses} {less} of {start} {thing}s. Later {who} {gains} {more} more. "
            f"How many {thing}s is that now?",
        ),
        f"{who} starts with {start} {thing}s. {he} {loses} {less}: "
        f"{start} - {less} = {middle}. {he} {gains} {more} more: {middle} + {more} = {end}.",
        f"So {who} has {quantity(end, thing)} now.",
        end,
    )


def _two_gains_and_a_loss(rng: random.Random, who: str, he: str, thing: str) -> Tale:
    start, first, second, less = rng.randint(10, 70), *(rng.randint(2, 9) for _ in range(3))
    gains, loses = rng.choice(GAINS), rng.choice(LOSSES)
    one, two, end = start + first, start + first + second, start + first + second - less
    return Tale(
        (
            f"{who} has {start} {thing}s. {he} {gains} {first} on Monday and {second} on "
            f"Tuesday, and {loses} {less} on Friday. How many {thing}s does {who} have then?",
            f"On Monday {who} {gains} {first} {thing}s, on Tuesday {second}. On Friday {who} "
            f"{loses} {less}. {he} had {start} before. How many {thing}s are left?",
        ),
        f"{who} starts with {start} {thing}s. Monday: {start} + {first} = {one}. "
        f"Tuesday: {one} + {second} = {two}. Friday: {two} - {less} = {end}.",
        f"So {who} has {quantity(end, thing)} left.",
        end,
    )


def _full_holders_and_some(rng: random.Random, who: str, he: str, thing: str) -> Tale:
    holders, each, loose = (rng.randint(2, 9) for _ in range(3))
    holder = rng.choice(HOLDERS)
    product, end = holders * each, holders * each + loose
    return Tale(
        (
            f"{who} has {holders} {holder}s with {each} {thing}s each and {loose} loose "
            f"{thing}s. How many {thing}s does {who} have?",
            f"There are {holders} {holder}s of {each} {thing}s, and {who} adds {loose} more "
            f"{thing}s. How many {thing}s are there in all?",
            f"How many {thing}s does {who} have in total? {he} has {holders} {holder}s of "
            f"{each} and {loose} more.",
        ),
        f"{holders} {holder}s of {each} {thing}s: {holders} x {each} = {product}. "
        f"{loose} more: {product} + {loose} = {end}.",
        f"So {who} has {quantity(end, thing)} in all.",
        end,
    )


def _full_holders_less_some(rng: random.Random, who: str, he: str, thing: str) -> Tale:
    holders, each = rng.randint(2, 9), rng.randint(2, 9)
    holder, loses = rng.choice(HOLDERS), rng.choice(LOSSES)
    product = holders * each
    less = rng.randint(2, min(9, product - 1))
    end = product - less
    return Tale(
        (
            f"{who} fills {holders} {holder}s with {each} {thing}s each, then {loses} {less} "
            f"{thing}s. How many {thing}s are left?",
            f"{who} has {holders} {holder}s of {each} {thing}s. {he} {loses} {less}. "
            f"How many {thing}s does {who} have left?",
            f"If {who} has {holders} {holder}s of {each} {thing}s and {loses} {less}, "
            f"how many {thing}s remain?",
        ),
        f"{holders} {holder}s of {each} {thing}s: {holders} x {each} = {product}. "
        f"{he} {loses} {less}: {product} - {less} = {end}.",
        f"So {who} has {quantity(end, thing)} left.",
        end,
    )


def _gain_then_share(rng: random.Random, who: str, he: str, thing: str) -> Tale:
    friends, each = rng.randint(2, 9), rng.randint(2, 9)
    total = friends * each
    more = rng.randint(2, min(9, total - 2)) if total > 4 else 2
    start, gains = total - more, rng.choice(GAINS)
    return Tale(
        (
            f"{who} has {start} {thing}s and {gains} {more} more. {he} shares them equally "
            f"among {friends} friends. How many {thing}s does each friend get?",
            f"{who} {gains} {more} {thing}s and already has {start}. If {friends} friends "
            f"share them equally, how many {thing}s does each one get?",
            f"How many {thing}s does each of {friends} friends get if {who} has {start}, "
            f"{gains} {more} more and shares them all equally?",
        ),
        f"{who} starts with {start} {thing}s. {he} {gains} {more} more: "
        f"{start} + {more} = {total}. Shared by {friends}: {total} / {friends} = {each}.",
        f"So each friend gets {quantity(each, thing)}.",
        each,
    )


def _share_then_lose(rng: random.Random, who: str, he: str, thing: str) -> Tale:
    children, each = rng.randint(2, 9), rng.randint(3, 9)
    total, less, loses = children * each, rng.randint(2, each - 1), rng.choice(LOSSES)
    end = each - less
    return Tale(
        (
            f"{children} children share {total} {thing}s equally. {who} is one of them and "
            f"{loses} {less}. How many {thing}s does {who} have left?",
            f"{who} and the other children, {children} in all, share {total} {thing}s equally. "
            f"Then {who} {loses} {less}. How many {thing}s does {who} keep?",
        ),
        f"{total} {thing}s shared by {children}: {total} / {children} = {each}. "
        f"{he} {loses} {less}: {each} - {less} = {end}.",
        f"So {who} has {quantity(end, thing)} left.",
        end,
    )


def _two_people(rng: random.Random, who: str, he: str, thing: str) -> Tale:
    other = rng.choice([name for name in NAMES if name != who])
    start, more = rng.randint(2, 9), rng.randint(2, 9)
    theirs, both = start + more, start + start + more
    return Tale(
        (
            f"{who} has {start} {thing}s. {other} has {more} more than {who}. "
            f"How many {thing}s do they have together?",
            f"{other} has {more} more {thing}s than {who}. {who} has {start}. "
            f"How many {thing}s do the two have in all?",
            f"If {who} has {start} {thing}s and {other} has {more} more than that, "
            f"how many {thing}s do they have altogether?",
        ),
        f"{who} has {start} {thing}s. {other} has {more} more: {start} + {more} = {theirs}. "
        f"Together: {start} + {theirs} = {both}.",
        f"So they have {quantity(both, thing)} together.",
        both,
    )


def _shopping(rng: random.Random, who: str, he: str, thing: str) -> Tale:
    count, price, extra = (rng.randint(2, 9) for _ in range(3))
    treat = rng.choice(("book", "hat", "toy", "cake", "map"))
    product, total = count * price, count * price + extra
    return Tale(
        (
            f"{who} buys {count} {thing}s for {price} dollars each and a {treat} for {extra} "
            f"dollars. How many dollars does {who} pay?",
            f"A {thing} costs {price} dollars and a {treat} costs {extra} dollars. How much "
            f"does {who} pay for {count} {thing}s and a {treat}?",
            f"How much does {who} spend? {he} buys a {treat} for {extra} dollars and {count} "
            f"{thing}s for {price} dollars each.",
        ),
        f"{count} {thing}s at {price} dollars each: {count} x {price} = {product}. "
        f"The {treat} costs {extra} dollars: {product} + {extra} = {total}.",
        f"So {who} pays {total} dollars.",
        total,
    )


def _bus(rng: random.Random, who: str, he: str, thing: str) -> Tale:
    start, first_on, off, then_on = rng.randint(10, 40), *(rng.randint(2, 9) for _ in range(3))
    one, two, end = start + first_on, start + first_on - off, start + first_on - off + then_on
    ride = rng.choice(("bus", "train", "tram", "boat"))
    return Tale(
        (
            f"A {ride} carries {start} people. {first_on} get on, {off} get off, and then "
            f"{then_on} more get on. How many people are on the {ride} now?",
            f"There are {start} people on a {ride}. At the first stop {first_on} get on. At "
            f"the next stop {off} get off and {then_on} get on. How many people are on it?",
        ),
        f"The {ride} starts with {start} people. {first_on} get on: "
        f"{start} + {first_on} = {one}. {off} get off: {one} - {off} = {two}. "
        f"{then_on} get on: {two} + {then_on} = {end}.",
        f"So there are {end} people on the {ride}.",
        end,
    )


TALES = (
    _gain_then_lose, _lose_then_gain, _two_gains_and_a_loss, _full_holders_and_some,
    _full_holders_less_some, _gain_then_share, _share_then_lose, _two_people, _shopping, _bus,
)  # fmt: skip


def make(rng: random.Random) -> Example:
    who, he = rng.choice(PEOPLE)
    tale = rng.choice(TALES)(rng, who, he, rng.choice(THINGS))
    prompt = ask(rng, tale.asks)
    answer = f"{tale.steps} {tale.conclusion}"
    return Example("word-problems", prompt, answer, {"number": tale.number})


def grade(example: Example, answer: str) -> bool:
    numbers = re.findall(r"-?\d+", answer)
    is_sentence = answer.rstrip().endswith(".")
    return is_sentence and bool(numbers) and numbers[-1] == str(example.facts["number"])


TASK = Task("word-problems", "Word problems", make, grade, 1.5)
