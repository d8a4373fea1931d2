"""Small closed worlds of chat problems, each with worked answers and an exact grader.

A very small model learns these worlds from scratch, so every answer is written to be easy to
derive: numbers are small, arithmetic is shown step by step, and vocabularies are closed.
The worlds differ on purpose in how predictable their answers are: a times table is almost all
boilerplate, while a tiny story is nearly all free choice.
"""

from __future__ import annotations

import ast
import hashlib
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

SPLITS = ("train", "held-out")

# One prompt in this many belongs to the held-out split.
_HELD_OUT_SHARE = 10


@dataclass(frozen=True)
class Example:
    """One problem: what a person types, a worked answer, and what the grader needs."""

    task: str
    prompt: str
    answer: str
    facts: dict


@dataclass(frozen=True)
class Task:
    """A world of problems: `make` draws one, `grade` says whether an answer to it is right."""

    name: str
    title: str
    make: Callable[[random.Random], Example]
    grade: Callable[[Example, str], bool]
    weight: float = 1.0


def split_of(prompt: str) -> str:
    """The split a prompt belongs to, the same on every machine."""
    digest = hashlib.sha256(prompt.encode()).digest()
    return "held-out" if int.from_bytes(digest[:8], "big") % _HELD_OUT_SHARE == 0 else "train"


def examples(names: Sequence[str] | None, split: str, seed: int) -> Iterator[Example]:
    """Endless examples of one split, drawn by weight from the named tasks (None: all of them)."""
    tasks = [_task(name) for name in (TASKS if names is None else names)]
    if not tasks:
        raise ValueError("Name at least one task, or pass None for all of them.")
    if split not in SPLITS:
        raise ValueError(f"Unknown split {split!r}: choose one of {', '.join(SPLITS)}.")
    return _draws(tasks, split, random.Random(seed))


def held_out(name: str, count: int, seed: int = 0) -> list[Example]:
    """`count` held-out examples of one task, no two with the same prompt."""
    rng = random.Random(f"{name}/{seed}")
    draws = _draws([_task(name)], "held-out", rng)
    found: dict[str, Example] = {}
    for _ in range(1000 + 20 * count):
        if len(found) == count:
            break
        example = next(draws)
        found.setdefault(example.prompt, example)
    if len(found) < count:
        raise ValueError(f"Task {name!r} has too few held-out prompts to give {count}.")
    return list(found.values())


def mixed(per_task: int) -> list[Example]:
    """`per_task` held-out examples of every task, one task after the other in turn."""
    return [example for turn in zip(*(held_out(name, per_task) for name in TASKS)) for example in turn]


def _task(name: str) -> Task:
    if name not in TASKS:
        raise ValueError(f"Unknown task {name!r}: choose from {', '.join(TASKS)}.")
    return TASKS[name]


def _draws(tasks: list[Task], split: str, rng: random.Random) -> Iterator[Example]:
    weights = [task.weight for task in tasks]
    while True:
        task = rng.choices(tasks, weights)[0]
        example = task.make(rng)
        # Draw the prompt again rather than the task, so that weights hold within each split.
        while split_of(example.prompt) != split:
            example = task.make(rng)
        yield example


# Shared by several worlds ---------------------------------------------------------------------


def _ask(rng: random.Random, phrasings: Sequence[str], **details: object) -> str:
    """A question in one of its phrasings, typed as people type: some sloppily, some politely."""
    text = rng.choice(phrasings).format(**details)
    style = rng.random()
    if style < 0.12:
        return text.lower().rstrip(".?!") + rng.choice(("", " thx"))
    if style < 0.20:
        return rng.choice(("Hi! ", "Hello! ", "Hey there! ")) + text
    if style < 0.28:
        return text + rng.choice((" Thanks!", " Thank you."))
    return text


def _concluding(task: str, prompt: str, steps: str, conclusion: str) -> Example:
    """An example whose answer is right when it ends in `conclusion`."""
    answer = f"{steps} {conclusion}" if steps else conclusion
    return Example(task, prompt, answer, {"conclusion": conclusion})


def _concludes(example: Example, answer: str) -> bool:
    answer, conclusion = answer.rstrip(), example.facts["conclusion"]
    before = answer[: -len(conclusion)]
    return answer.endswith(conclusion) and (not before or before[-1].isspace())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _listed(items: Sequence[object]) -> str:
    return ", ".join(map(str, items))


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


PEOPLE = (
    ("Sam", "He"), ("Mia", "She"), ("Leo", "He"), ("Ana", "She"), ("Tom", "He"),
    ("Eva", "She"), ("Ben", "He"), ("Zoe", "She"), ("Max", "He"), ("Lily", "She"),
    ("Omar", "He"), ("Nina", "She"), ("Paul", "He"), ("Ruth", "She"), ("Ivan", "He"),
    ("Emma", "She"), ("Noah", "He"), ("Rosa", "She"), ("Carl", "He"), ("Maya", "She"),
)  # fmt: skip
NAMES = tuple(name for name, _ in PEOPLE)

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
_TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()


def in_words(number: int) -> str:
    """0..9999 in words: 4203 is "four thousand two hundred and three"."""
    if number < 20:
        return _ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS[tens] + (f"-{_ONES[ones]}" if ones else "")
    if number < 1000:
        hundreds, rest = divmod(number, 100)
        return f"{_ONES[hundreds]} hundred" + (f" and {in_words(rest)}" if rest else "")
    thousands, rest = divmod(number, 1000)
    link = " and " if 0 < rest < 100 else " "
    return f"{_ONES[thousands]} thousand" + (link + in_words(rest) if rest else "")


# word-problems --------------------------------------------------------------------------------

THINGS = tuple("apple marble sticker pencil cookie shell stamp button ticket balloon card coin".split())
HOLDERS = ("bag", "jar", "basket", "tray", "crate", "bucket")
_GAINS = ("buys", "finds", "gets", "wins", "picks up")
_LOSSES = ("gives away", "loses", "sells", "uses up")


@dataclass(frozen=True)
class _Tale:
    """A word problem: phrasings of the question, the steps and the conclusion."""

    asks: tuple[str, ...]
    steps: str
    conclusion: str
    number: int


def _gain_then_lose(rng: random.Random, who: str, he: str, thing: str) -> _Tale:
    start, more, less = rng.randint(10, 80), rng.randint(2, 9), rng.randint(2, 9)
    gains, loses = rng.choice(_GAINS), rng.choice(_LOSSES)
    middle, end = start + more, start + more - less
    return _Tale(
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
        f"So {who} has {_count(end, thing)} left.",
        end,
    )


def _lose_then_gain(rng: random.Random, who: str, he: str, thing: str) -> _Tale:
    start, less, more = rng.randint(12, 80), rng.randint(2, 9), rng.randint(2, 9)
    gains, loses = rng.choice(_GAINS), rng.choice(_LOSSES)
    middle, end = start - less, start - less + more
    return _Tale(
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
        f"So {who} has {_count(end, thing)} now.",
        end,
    )


def _two_gains_and_a_loss(rng: random.Random, who: str, he: str, thing: str) -> _Tale:
    start, first, second, less = rng.randint(10, 70), *(rng.randint(2, 9) for _ in range(3))
    gains, loses = rng.choice(_GAINS), rng.choice(_LOSSES)
    one, two, end = start + first, start + first + second, start + first + second - less
    return _Tale(
        (
            f"{who} has {start} {thing}s. {he} {gains} {first} on Monday and {second} on "
            f"Tuesday, and {loses} {less} on Friday. How many {thing}s does {who} have then?",
            f"On Monday {who} {gains} {first} {thing}s, on Tuesday {second}. On Friday {who} "
            f"{loses} {less}. {he} had {start} before. How many {thing}s are left?",
        ),
        f"{who} starts with {start} {thing}s. Monday: {start} + {first} = {one}. "
        f"Tuesday: {one} + {second} = {two}. Friday: {two} - {less} = {end}.",
        f"So {who} has {_count(end, thing)} left.",
        end,
    )


def _full_holders_and_some(rng: random.Random, who: str, he: str, thing: str) -> _Tale:
    holders, each, loose = (rng.randint(2, 9) for _ in range(3))
    holder = rng.choice(HOLDERS)
    product, end = holders * each, holders * each + loose
    return _Tale(
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
        f"So {who} has {_count(end, thing)} in all.",
        end,
    )


def _full_holders_less_some(rng: random.Random, who: str, he: str, thing: str) -> _Tale:
    holders, each = rng.randint(2, 9), rng.randint(2, 9)
    holder, loses = rng.choice(HOLDERS), rng.choice(_LOSSES)
    product = holders * each
    less = rng.randint(2, min(9, product - 1))
    end = product - less
    return _Tale(
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
        f"So {who} has {_count(end, thing)} left.",
        end,
    )


def _gain_then_share(rng: random.Random, who: str, he: str, thing: str) -> _Tale:
    friends, each = rng.randint(2, 9), rng.randint(2, 9)
    total = friends * each
    more = rng.randint(2, min(9, total - 2)) if total > 4 else 2
    start, gains = total - more, rng.choice(_GAINS)
    return _Tale(
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
        f"So each friend gets {_count(each, thing)}.",
        each,
    )


def _share_then_lose(rng: random.Random, who: str, he: str, thing: str) -> _Tale:
    children, each = rng.randint(2, 9), rng.randint(3, 9)
    total, less, loses = children * each, rng.randint(2, each - 1), rng.choice(_LOSSES)
    end = each - less
    return _Tale(
        (
            f"{children} children share {total} {thing}s equally. {who} is one of them and "
            f"{loses} {less}. How many {thing}s does {who} have left?",
            f"{who} and the other children, {children} in all, share {total} {thing}s equally. "
            f"Then {who} {loses} {less}. How many {thing}s does {who} keep?",
        ),
        f"{total} {thing}s shared by {children}: {total} / {children} = {each}. "
        f"{he} {loses} {less}: {each} - {less} = {end}.",
        f"So {who} has {_count(end, thing)} left.",
        end,
    )


def _two_people(rng: random.Random, who: str, he: str, thing: str) -> _Tale:
    other = rng.choice([name for name in NAMES if name != who])
    start, more = rng.randint(2, 9), rng.randint(2, 9)
    theirs, both = start + more, start + start + more
    return _Tale(
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
        f"So they have {_count(both, thing)} together.",
        both,
    )


def _shopping(rng: random.Random, who: str, he: str, thing: str) -> _Tale:
    count, price, extra = (rng.randint(2, 9) for _ in range(3))
    treat = rng.choice(("book", "hat", "toy", "cake", "map"))
    product, total = count * price, count * price + extra
    return _Tale(
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


def _bus(rng: random.Random, who: str, he: str, thing: str) -> _Tale:
    start, first_on, off, then_on = rng.randint(10, 40), *(rng.randint(2, 9) for _ in range(3))
    one, two, end = start + first_on, start + first_on - off, start + first_on - off + then_on
    ride = rng.choice(("bus", "train", "tram", "boat"))
    return _Tale(
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


_TALES = (
    _gain_then_lose, _lose_then_gain, _two_gains_and_a_loss, _full_holders_and_some,
    _full_holders_less_some, _gain_then_share, _share_then_lose, _two_people, _shopping, _bus,
)  # fmt: skip


def _make_word_problem(rng: random.Random) -> Example:
    who, he = rng.choice(PEOPLE)
    tale = rng.choice(_TALES)(rng, who, he, rng.choice(THINGS))
    prompt = _ask(rng, tale.asks)
    answer = f"{tale.steps} {tale.conclusion}"
    return Example("word-problems", prompt, answer, {"number": tale.number})


def _grade_word_problem(example: Example, answer: str) -> bool:
    numbers = re.findall(r"-?\d+", answer)
    is_sentence = answer.rstrip().endswith(".")
    return is_sentence and bool(numbers) and numbers[-1] == str(example.facts["number"])


# units ----------------------------------------------------------------------------------------

# One of the first, several of it, the smaller unit, how many of those make one.
UNITS = (
    ("kilometer", "kilometers", "meters", 1000),
    ("kilogram", "kilograms", "grams", 1000),
    ("liter", "liters", "milliliters", 1000),
    ("ton", "tons", "kilograms", 1000),
    ("meter", "meters", "centimeters", 100),
    ("dollar", "dollars", "cents", 100),
    ("century", "centuries", "years", 100),
    ("centimeter", "centimeters", "millimeters", 10),
    ("decade", "decades", "years", 10),
    ("hour", "hours", "minutes", 60),
    ("minute", "minutes", "seconds", 60),
    ("week", "weeks", "days", 7),
    ("foot", "feet", "inches", 12),
    ("year", "years", "months", 12),
    ("dozen", "dozen", "pieces", 12),
    ("day", "days", "hours", 24),
    ("pound", "pounds", "ounces", 16),
    ("yard", "yards", "feet", 3),
)

_UNIT_ASKS = (
    "How many {small} are in {n} {large}?",
    "How many {small} is {n} {large}?",
    "Convert {n} {large} to {small}.",
    "What is {n} {large} in {small}?",
    "Could you turn {n} {large} into {small} for me?",
    "I have {n} {large}. How many {small} is that?",
    "Please change {n} {large} to {small}.",
    "{n} {large} in {small}?",
)


def _make_unit(rng: random.Random) -> Example:
    one, large, small, factor = rng.choice(UNITS)
    n = rng.randint(2, 20 if factor in (10, 100, 1000) else 12)
    prompt = _ask(rng, _UNIT_ASKS, n=n, large=large, small=small)
    product = f"{n * factor:,}"
    steps = (
        f"1 {one} is {factor:,} {small}. {n} {large} is {_product_shown(n, factor)} = {product} {small}."
    )
    return _concluding("units", prompt, steps, f"So {n} {large} is {product} {small}.")


def _product_shown(n: int, factor: int) -> str:
    shown = f"{n} x {factor:,}"
    if n <= 10 or factor in (10, 100, 1000):
        return shown
    ones = n - 10
    return f"{shown} = 10 x {factor} + {ones} x {factor} = {10 * factor} + {ones * factor}"


# weekdays -------------------------------------------------------------------------------------

MONTHS = (
    ("January", 31), ("February", 28), ("March", 31), ("April", 30), ("May", 31), ("June", 30),
    ("July", 31), ("August", 31), ("September", 30), ("October", 31), ("November", 30),
    ("December", 31),
)  # fmt: skip

_ORDINALS = ("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth").split()

_LATER_ASKS = (
    "What day is {n} after {day}?",
    "If today is {day}, what day will it be in {n}?",
    "Which day of the week comes {n} after {day}?",
    "Today is {day}. What day is it {n} from now?",
    "Could you tell me the day {n} after {day}?",
)
_EARLIER_ASKS = (
    "What day is {n} before {day}?",
    "If today is {day}, what day was it {n} ago?",
    "Which day of the week comes {n} before {day}?",
    "Today is {day}. What day was it {n} ago?",
    "Could you tell me the day {n} before {day}?",
)
_MONTH_ASKS = {
    "length": (
        "How many days are in {month}?",
        "How many days does {month} have?",
        "What is the number of days in {month}?",
        "How long is {month} in days?",
        "Tell me how many days {month} has.",
    ),
    "next": (
        "Which month comes after {month}?",
        "What is the month after {month}?",
        "What month follows {month}?",
        "Tell me the month that comes after {month}.",
    ),
    "previous": (
        "Which month comes before {month}?",
        "What is the month before {month}?",
        "Tell me the month that comes before {month}.",
        "Which month is right before {month}?",
    ),
    "place": (
        "Which month of the year is {month}?",
        "What number month is {month}?",
        "Where in the year does {month} come?",
        "Is {month} the first month of the year, the second, or which one?",
    ),
}


def _make_weekday(rng: random.Random) -> Example:
    # Months make few different prompts, so they are asked about less often.
    return _make_month(rng) if rng.random() < 0.15 else _make_day_count(rng)


def _make_day_count(rng: random.Random) -> Example:
    n, start, later = rng.randint(1, 60), rng.randrange(7), rng.random() < 0.6
    step = 1 if later else -1
    weeks, rest = divmod(n, 7)
    day, days, whole = DAYS[start], _count(n, "day"), _count(weeks, "week")
    if not weeks:
        steps = [f"{days} is less than a week."]
    else:
        size = f"{whole} and {_count(rest, 'day')}" if rest else f"exactly {whole}"
        steps = [f"{days} is {size}.", f"{whole} {'later' if later else 'earlier'} it is {day}."]
    if rest:
        # Numbering the days shows where to stop.
        counted = [f"{DAYS[(start + step * i) % 7]} ({i})" for i in range(1, rest + 1)]
        steps.append(f"Counting {'on' if later else 'back'} from {day}: {_listed(counted)}.")
    prompt = _ask(rng, _LATER_ASKS if later else _EARLIER_ASKS, n=days, day=day)
    conclusion = f"So it is {DAYS[(start + step * rest) % 7]}."
    return _concluding("weekdays", prompt, " ".join(steps), conclusion)


def _make_month(rng: random.Random) -> Example:
    index, question = rng.randrange(12), rng.choice(list(_MONTH_ASKS))
    month, length = MONTHS[index]
    after, before = MONTHS[(index + 1) % 12][0], MONTHS[(index - 1) % 12][0]
    leap = ", or 29 in a leap year" if month == "February" else ""
    says = {
        "length": f"{month} has {length} days{leap}.",
        "next": f"The month after {month} is {after}.",
        "previous": f"The month before {month} is {before}.",
        "place": f"{month} is the {_ORDINALS[index]} month of the year.",
    }
    prompt = _ask(rng, _MONTH_ASKS[question], month=month)
    return _concluding("weekdays", prompt, "", says[question])


# sorting --------------------------------------------------------------------------------------

# Simple words for lists, two for each of many initials, so that lists with different initials are easy to
# draw. Few, because a small model has to meet each of them often to copy it.
NOUNS = tuple(
    """
    ant arm ball boat cat chair dog door eagle egg fish flag girl grape hand house ice iron jam jar
    key kite lamp lemon milk moon nest night oak owl pan pear queen quilt rain ring ship sun table
    tree van violin wall water yard zebra
    """.split()
)

_SORT_ASKS = {
    "From smallest to largest": (
        "Sort these numbers: {items}",
        "Sort {items} from smallest to largest.",
        "Can you put these numbers in ascending order? {items}",
        "pls sort {items}",
        "Put {items} in order, smallest first.",
        "Arrange these numbers from low to high: {items}",
    ),
    "From largest to smallest": (
        "Sort these numbers in descending order: {items}",
        "Sort {items} from largest to smallest.",
        "Can you put these numbers in order, largest first? {items}",
        "pls sort {items} from high to low",
        "Arrange these numbers from high to low: {items}",
    ),
    "In alphabetical order": (
        "Sort these words: {items}",
        "Sort {items} alphabetically.",
        "Can you put these words in alphabetical order? {items}",
        "pls sort the words {items} from a to z",
        "Put {items} in alphabetical order.",
        "Arrange these words from A to Z: {items}",
    ),
}


def _make_sorting(rng: random.Random) -> Example:
    order = rng.choices(list(_SORT_ASKS), (2, 2, 6))[0]
    alphabetical = order == "In alphabetical order"
    items = (
        _words_to_sort(rng, rng.randint(3, 4)) if alphabetical else _numbers_to_sort(rng, rng.randint(3, 5))
    )
    ordered = sorted(items, reverse=order == "From largest to smallest")
    prompt = _ask(rng, _SORT_ASKS[order], items=_listed(items))
    steps = f"The list is {_listed(items)}."
    return _concluding("sorting", prompt, steps, f"{order}: {_listed(ordered)}.")


def _numbers_to_sort(rng: random.Random, count: int) -> list[int]:
    """Two-digit numbers that mostly differ in their tens, so that the first digit settles the order."""
    if rng.random() < 0.1:
        return rng.sample(range(10, 100), count)
    return [10 * tens + rng.randint(0, 9) for tens in rng.sample(range(1, 10), count)]


def _words_to_sort(rng: random.Random, count: int) -> list[str]:
    by_initial: dict[str, str] = {}
    for word in rng.sample(NOUNS, len(NOUNS)):
        by_initial.setdefault(word[0], word)
    return list(by_initial.values())[:count]


# reversing and letters ------------------------------------------------------------------------

# Words to spell. Both worlds use them, so each spelling is learned twice over.
WORDS = tuple(
    """
    add air apple arrow autumn baby bacon badge bag bakery ball balloon banana bank barn basket
    bean bear bed bee bell berry bicycle bird blanket blue boat book boot bottle box branch
    bread bridge brook broom brush bubble bucket bus butter button cabbage cake camel camera
    candle candy canyon carpet carrot castle cat cattle cave cello chair cheese cherry chess
    chicken circle city clock cloud clover coat coffee comet copper corn cotton cousin cow crab
    cradle cream cricket crown cup curtain daisy dance deer desert desk dinner doctor dog dollar
    dolphin donkey door dragon dream drum duck eagle east egg elbow elephant engine evening
    falcon family farm feather fern ferry field finger fire fish flag flower flute fog forest
    fork fossil fox frog fruit garden garlic giant ginger giraffe glass glove goat gold goose
    grape grass green guitar hammer harbor hat hazel heart hill hobby honey horse house ice
    island ivory jacket jar jelly jungle kettle key king kitchen kite kitten ladder lake lamp
    lantern lemon letter library lily lion lizard lobster mango map maple marble market meadow
    melon memory milk mirror money monkey moon morning mouse muffin music needle nest noodle
    north nose oak ocean olive onion orange otter oven owl paddle paper parrot pasta pea peach
    pear pebble pencil pepper piano picnic pillow pilot pizza planet plum pocket poem pony
    potato puddle pumpkin puppy queen rabbit radio rain raisin ribbon rice ring river robin
    rocket roof rose saddle salad salmon salt sand school scissors seed sheep shell ship shoe
    silver sister snow soap soccer sock soup spoon spring squirrel star stone storm strawberry
    street summer sun swan table teacher tiger toffee tomato tooth tower train tree tulip tunnel
    turtle umbrella valley velvet village violet violin wagon walnut water weather whale wheel
    willow window winter wolf wood wool yellow zebra zipper
    """.split()
)
SHORT_WORDS = tuple(word for word in WORDS if 3 <= len(word) <= 6)

_REVERSE_ASKS = (
    "Reverse this list: {items}",
    "Reverse the order of {items}.",
    "Can you write {items} in reverse order?",
    "Write this list backwards: {items}",
    "What is {items} in reverse order?",
    "pls reverse {items}",
)
_BACKWARDS_ASKS = (
    "Spell {word} backwards.",
    "How do you spell {word} backwards?",
    "Can you spell the word {word} backwards?",
    "Reverse the letters of {word}.",
    "What is the word {word} spelled backwards?",
    "Write the letters of the word {word} in reverse order, please.",
)


def _make_reversing(rng: random.Random) -> Example:
    return _make_backwards(rng) if rng.random() < 0.3 else _make_reversed_list(rng)


def _make_reversed_list(rng: random.Random) -> Example:
    if rng.random() < 0.7:
        items = rng.sample(NOUNS, rng.randint(3, 5))
    else:
        items = rng.sample(range(10, 100), rng.randint(3, 6))
    prompt = _ask(rng, _REVERSE_ASKS, items=_listed(items))
    steps = f"The list is {_listed(items)}."
    return _concluding("reversing", prompt, steps, f"In reverse order: {_listed(items[::-1])}.")


def _make_backwards(rng: random.Random) -> Example:
    word = rng.choice(SHORT_WORDS)
    prompt = _ask(rng, _BACKWARDS_ASKS, word=word)
    steps = f"The word {word} is spelled {'-'.join(word)}."
    return _concluding("reversing", prompt, steps, f"Backwards it is {'-'.join(word[::-1])}.")


_LETTER_ASKS = (
    "How many times does the letter {letter} appear in {word}?",
    "How many {letter}'s are in {word}?",
    "Count the letter {letter} in {word}.",
    "How often does {letter} occur in the word {word}?",
    "Could you count the {letter}'s in {word}?",
    "Tell me how many times {word} has the letter {letter}.",
)


def _make_letters(rng: random.Random) -> Example:
    word = rng.choice(WORDS)
    # Some letters are not in the word at all.
    letter = rng.choice("abcdefghiklmnoprstuwy" if rng.random() < 0.15 else word)
    shown, times = [], 0
    for spelled in word:
        times += spelled == letter
        shown.append(f"{spelled} ({times})" if spelled == letter else spelled)
    prompt = _ask(rng, _LETTER_ASKS, letter=letter, word=word)
    steps = f"Spelling {word}: {_listed(shown)}."
    conclusion = f"The letter {letter} appears {_count(times, 'time')} in {word}."
    return _concluding("letters", prompt, steps, conclusion)


# number-words ---------------------------------------------------------------------------------

_TO_WORDS_ASKS = (
    "How do you write {number} in words?",
    "Write {number} in words.",
    "Can you spell out the number {number}?",
    "What is {number} in words?",
    "Please write the number {number} as words.",
)
_TO_DIGITS_ASKS = (
    "Write {words} in digits.",
    "What is {words} as a number?",
    "How do you write {words} in digits?",
    "Can you turn {words} into digits?",
    "Please give me the number {words} in figures.",
)


def _make_number_words(rng: random.Random) -> Example:
    # Longer numbers are drawn more often, because there are more of them to learn.
    low, high = rng.choices(((0, 9), (10, 99), (100, 999), (1000, 9999)), (1, 3, 5, 6))[0]
    number = rng.randint(low, high)
    digits, words = f"{number:,}", in_words(number)
    if rng.random() < 0.5:
        typed = digits if rng.random() < 0.6 else str(number)
        prompt = _ask(rng, _TO_WORDS_ASKS, number=typed)
        return _concluding("number-words", prompt, "", f"In words, {digits} is {words}.")
    prompt = _ask(rng, _TO_DIGITS_ASKS, words=words)
    return _concluding("number-words", prompt, "", f"In digits, {words} is {digits}.")


# world-facts ----------------------------------------------------------------------------------

COUNTRIES = """
    France|Paris|Europe|French|euro
    Germany|Berlin|Europe|German|euro
    Italy|Rome|Europe|Italian|euro
    Spain|Madrid|Europe|Spanish|euro
    Portugal|Lisbon|Europe|Portuguese|euro
    Greece|Athens|Europe|Greek|euro
    Austria|Vienna|Europe|German|euro
    Finland|Helsinki|Europe|Finnish|euro
    Estonia|Tallinn|Europe|Estonian|euro
    Latvia|Riga|Europe|Latvian|euro
    Lithuania|Vilnius|Europe|Lithuanian|euro
    Slovakia|Bratislava|Europe|Slovak|euro
    Croatia|Zagreb|Europe|Croatian|euro
    Sweden|Stockholm|Europe|Swedish|Swedish krona
    Norway|Oslo|Europe|Norwegian|Norwegian krone
    Denmark|Copenhagen|Europe|Danish|Danish krone
    Iceland|Reykjavik|Europe|Icelandic|Icelandic krona
    Poland|Warsaw|Europe|Polish|zloty
    Hungary|Budapest|Europe|Hungarian|forint
    Romania|Bucharest|Europe|Romanian|leu
    Albania|Tirana|Europe|Albanian|lek
    Egypt|Cairo|Africa|Arabic|Egyptian pound
    Morocco|Rabat|Africa|Arabic|Moroccan dirham
    Tunisia|Tunis|Africa|Arabic|Tunisian dinar
    Kenya|Nairobi|Africa|Swahili|Kenyan shilling
    Ghana|Accra|Africa|English|cedi
    Nigeria|Abuja|Africa|English|naira
    Angola|Luanda|Africa|Portuguese|kwanza
    Mozambique|Maputo|Africa|Portuguese|metical
    Japan|Tokyo|Asia|Japanese|yen
    China|Beijing|Asia|Chinese|yuan
    South Korea|Seoul|Asia|Korean|won
    Thailand|Bangkok|Asia|Thai|baht
    Vietnam|Hanoi|Asia|Vietnamese|dong
    Cambodia|Phnom Penh|Asia|Khmer|riel
    Nepal|Kathmandu|Asia|Nepali|Nepalese rupee
    Bangladesh|Dhaka|Asia|Bengali|taka
    Mongolia|Ulaanbaatar|Asia|Mongolian|tugrik
    Jordan|Amman|Asia|Arabic|Jordanian dinar
    Mexico|Mexico City|North America|Spanish|Mexican peso
    Cuba|Havana|North America|Spanish|Cuban peso
    Jamaica|Kingston|North America|English|Jamaican dollar
    Brazil|Brasilia|South America|Portuguese|real
    Argentina|Buenos Aires|South America|Spanish|Argentine peso
    Chile|Santiago|South America|Spanish|Chilean peso
    Colombia|Bogota|South America|Spanish|Colombian peso
    Uruguay|Montevideo|South America|Spanish|Uruguayan peso
    Peru|Lima|South America|Spanish|sol
    Australia|Canberra|Oceania|English|Australian dollar
    New Zealand|Wellington|Oceania|English|New Zealand dollar
"""

ELEMENTS = """
    gold|Au
    silver|Ag
    iron|Fe
    copper|Cu
    lead|Pb
    tin|Sn
    oxygen|O
    hydrogen|H
    carbon|C
    nitrogen|N
    helium|He
    sodium|Na
"""

YOUNG = """
    dog|puppy
    cat|kitten
    cow|calf
    sheep|lamb
    horse|foal
    goat|kid
    duck|duckling
    goose|gosling
    swan|cygnet
    frog|tadpole
    bear|cub
    kangaroo|joey
"""

PLANETS = """
    first|Mercury
    second|Venus
    third|Earth
    fourth|Mars
    fifth|Jupiter
    sixth|Saturn
    seventh|Uranus
    eighth|Neptune
"""


@dataclass(frozen=True)
class _Relation:
    """Phrasings of a question about one column of a table, and the sentence that answers it."""

    table: str
    column: int
    asks: tuple[str, ...]
    says: str

    def rows(self) -> list[tuple[str, str]]:
        cells = (line.strip().split("|") for line in self.table.strip().splitlines())
        return [(row[0], row[self.column]) for row in cells]


_RELATIONS = (
    _Relation(
        COUNTRIES,
        1,
        (
            "What is the capital of {key}?",
            "Which city is the capital of {key}?",
            "Tell me the capital of {key}.",
            "What's the capital city of {key}?",
            "Do you know the capital of {key}?",
            "{key}: what is the capital?",
        ),
        "The capital of {key} is {value}.",
    ),
    _Relation(
        COUNTRIES,
        2,
        (
            "Which continent is {key} in?",
            "What continent is {key} on?",
            "On which continent is {key}?",
            "Tell me the continent of {key}.",
            "Do you know what continent {key} is part of?",
        ),
        "{key} is in {value}.",
    ),
    _Relation(
        COUNTRIES,
        3,
        (
            "What language is spoken in {key}?",
            "What is the main language of {key}?",
            "Which language do people speak in {key}?",
            "Tell me the main language in {key}.",
            "What language do they speak in {key}?",
        ),
        "The main language of {key} is {value}.",
    ),
    _Relation(
        COUNTRIES,
        4,
        (
            "What is the currency of {key}?",
            "Which currency is used in {key}?",
            "What money do people use in {key}?",
            "Tell me the currency of {key}.",
            "What do people pay with in {key}?",
        ),
        "The currency of {key} is the {value}.",
    ),
    _Relation(
        ELEMENTS,
        1,
        (
            "What is the chemical symbol for {key}?",
            "What's the symbol for {key}?",
            "Which chemical symbol stands for {key}?",
            "Tell me the chemical symbol of {key}.",
            "How is {key} written in chemistry?",
        ),
        "The chemical symbol for {key} is {value}.",
    ),
    _Relation(
        YOUNG,
        1,
        (
            "What is a baby {key} called?",
            "What do you call a baby {key}?",
            "What's the word for a young {key}?",
            "Tell me the name for a baby {key}.",
            "Do you know what a young {key} is called?",
        ),
        "A young {key} is called a {value}.",
    ),
    _Relation(
        PLANETS,
        1,
        (
            "Which planet is {key} from the Sun?",
            "What is the {key} planet from the Sun?",
            "Tell me the {key} planet from the Sun.",
            "Name the {key} planet of the solar system.",
            "Which one is the {key} planet, counting from the Sun?",
        ),
        "The {key} planet from the Sun is {value}.",
    ),
)

_FACTS = tuple((relation, *row) for relation in _RELATIONS for row in relation.rows())


def _make_world_fact(rng: random.Random) -> Example:
    relation, key, value = rng.choice(_FACTS)
    prompt = _ask(rng, relation.asks, key=key)
    return _concluding("world-facts", prompt, "", relation.says.format(key=key, value=value))


# notes ----------------------------------------------------------------------------------------

# No choice may contain another of its kind: the grader checks that only the asked one is there.
NOTE_DETAILS = {
    "occasion": (
        "a picnic", "a birthday party", "a game night", "a movie night", "a barbecue",
        "a concert", "a garden party", "a book club", "a dance", "a farewell dinner",
        "a bake sale", "a chess evening", "a tea party", "a school play", "a quiz night",
    ),
    "day": DAYS,
    "time": ("9 am", "10 am", "11 am", "1 pm", "2 pm", "3 pm", "4 pm", "5 pm", "6 pm", "7 pm"),
    "place": (
        "in the park", "at the library", "in the garden", "by the lake", "at the town hall",
        "on the beach", "at the school", "in the old barn", "at the bakery", "by the river",
        "at the cafe", "on the roof",
    ),
    "bring": (
        "a cake", "some juice", "a blanket", "a camera", "a guitar", "a salad", "some cups",
        "a board game", "warm socks", "an umbrella", "some music", "a pencil", "fresh bread",
        "a chair", "some fruit",
    ),
}  # fmt: skip

_GREETINGS = ("Dear", "Hello", "Hi")
_SIGN_OFFS = ("Best wishes,", "Love,", "Warmly,", "Your friend,", "See you soon,")
_INVITATIONS = (
    "I would like to invite you to {occasion} on {day} at {time}.",
    "Please come to {occasion} on {day} at {time}.",
    "You are invited to {occasion} on {day} at {time}.",
    "There will be {occasion} on {day} at {time}.",
)
_MEETINGS = (
    "We will meet {place}.",
    "It will be {place}.",
    "You can find us {place}.",
    "It takes place {place}.",
)
_REQUESTS = (
    "Please bring {bring}.",
    "Could you bring {bring}?",
    "It would be great if you could bring {bring}.",
    "Do not forget to bring {bring}.",
)
_WISHES = (
    "I look forward to seeing you.",
    "I hope you can come.",
    "It will be fun.",
    "Let me know if you can make it.",
    "We have not met for far too long.",
    "I am sure you will like it.",
)

_NOTE_ASKS = (
    "Write a short letter to {to} from {sender}. Invite {to} to {occasion} on {day} at {time} "
    "{place}, and ask for {bring}.",
    "Can you write a note from {sender} to {to}? It is about {occasion} {place} on {day} at "
    "{time}. {to} should bring {bring}.",
    "I am {sender}. Please write {to} an invitation to {occasion} on {day}, {time}, {place}. "
    "{to} should bring {bring}.",
    "pls write a note to {to}: {occasion}, {day} at {time}, {place}, bring {bring}, signed {sender}",
    "{sender} invites {to} to {occasion} {place}. It is on {day} at {time} and {to} should "
    "bring {bring}. Write the letter.",
)
_NOTE_LIST_ASKS = (
    "Write a short letter with these details: {listed}",
    "Please write a note for me. {listed}",
    "Write an invitation ({listed}).",
    "Can you turn this into a letter? {listed}",
)


def _make_note(rng: random.Random) -> Example:
    to, sender = rng.sample(NAMES, 2)
    details = {name: rng.choice(choices) for name, choices in NOTE_DETAILS.items()}
    facts = {"to": to, "sender": sender, **details}
    if rng.random() < 0.3:
        fields = {"to": to, "from": sender, **details}
        listed = [f"{name}: {value}" for name, value in fields.items()]
        rng.shuffle(listed)
        prompt = _ask(rng, _NOTE_LIST_ASKS, listed="; ".join(listed))
    else:
        prompt = _ask(rng, _NOTE_ASKS, **facts)
    middle = [rng.choice(_MEETINGS), rng.choice(_REQUESTS)]
    rng.shuffle(middle)
    wishes = rng.sample(_WISHES, rng.randint(0, 2))
    body = " ".join([rng.choice(_INVITATIONS), *middle, *wishes]).format(**details)
    answer = f"{rng.choice(_GREETINGS)} {to},\n{body}\n{rng.choice(_SIGN_OFFS)}\n{sender}"
    return Example("notes", prompt, answer, facts)


def _grade_note(example: Example, answer: str) -> bool:
    facts = example.facts
    lines = [line.strip() for line in answer.strip().splitlines() if line.strip()]
    if len(lines) < 4:
        return False
    greeting, *body_lines, sign_off, sender = lines
    body = " ".join(body_lines)
    return (
        greeting in [f"{word} {facts['to']}," for word in _GREETINGS]
        and sign_off in _SIGN_OFFS
        and sender == facts["sender"]
        and 3 <= len(_sentences(body)) <= 5
        and all(_mentioned(body, choices) == [facts[name]] for name, choices in NOTE_DETAILS.items())
    )


def _sentences(text: str) -> list[str]:
    """The sentences of a text; what follows the last stop counts as one too."""
    return [part for part in re.split(r"(?<=[.?!])\s+", text.strip()) if part]


def _mentioned(text: str, phrases: Sequence[str]) -> list[str]:
    return [phrase for phrase in phrases if re.search(rf"\b{re.escape(phrase)}\b", text)]


# stories --------------------------------------------------------------------------------------

HEROES = tuple(
    """
    fox bear wolf rabbit mouse owl otter badger hedgehog squirrel cat dog pony donkey goat sheep
    lion tiger elephant giraffe monkey parrot penguin swan duck goose frog turtle lizard snake
    whale dolphin crab bee beetle spider butterfly dragon giant wizard witch pirate sailor baker
    farmer painter king queen prince knight teacher doctor gardener robot ghost clown singer
    dancer hunter shepherd
    """.split()
)
OBJECTS = tuple(
    """
    lantern kettle mirror drum ladder basket bottle button candle carpet clock coat comb compass
    cradle crown cup curtain diamond door drawer envelope feather fiddle flag flute fork glove
    guitar hammer harp hat helmet jar key kite knife lamp letter locket map marble mask medal
    needle net notebook paintbrush pearl pebble pencil piano pillow pipe plate pocket puzzle quilt
    ring rope saddle sandal scarf shawl shell shovel sled spoon statue sword teapot
    telescope ticket trumpet trunk umbrella vase violin wagon whistle
    """.split()
)

# Every word of a story is drawn from one of these lists (or is the hero or the object), so that
# hardly any word can be guessed from the words before it.
_STORY_WORDS = {
    slot: tuple(words.split())
    for slot, words in {
        "the": "the that this one her his our my their another some your",
        "adj": """
            ancient bitter brave clumsy crooked curious dusty empty enormous faded forgotten
            frozen gentle golden grumpy hollow humble lonely lucky muddy nervous noisy patient
            purple quiet rusty secret sleepy stubborn tiny""",
        "went": """
            wandered danced slept stumbled hid waited hurried sang trembled limped whistled
            floated climbed rested listened vanished crawled laughed marched wept paused drifted
            sneezed galloped yawned stared bowed tumbled traveled shivered""",
        "took": """
            found carried painted dropped followed borrowed buried polished stole repaired
            watched lifted traded guarded remembered admired hugged ignored washed measured
            chased discovered kicked wrapped feared tickled collected noticed shook copied""",
        "did": """
            glittered rattled cracked melted hummed rolled burned swayed gleamed creaked fell
            bounced sank spun rang broke shone wobbled buzzed flickered smoked tilted snapped froze
            leaked""",
        "how": """
            softly bravely slowly twice proudly quietly sadly again gladly carefully nearby
            together alone forever happily outside everywhere gracefully loudly backwards
            politely eagerly barely sideways upstairs""",
        "near": """
            near behind beyond beneath above beside across around inside past under toward along
            through over against below""",
        "place": """
            river orchard mountain kitchen tower meadow bridge harbor cellar desert garden
            library island village cave forest market stable chimney valley castle bakery swamp
            attic waterfall road field church shore cottage""",
        "when": """
            yesterday today tonight once afterward meanwhile suddenly soon later eventually
            finally then somehow perhaps sometimes nowadays""",
        "join": """
            and but so while because until as yet since although whenever before after though""",
        "who": """
            somebody everyone nobody grandmother she he they we someone grandfather mother
            strangers neighbors I children""",
    }.items()
}  # fmt: skip

_STORY_STARTS = (
    "{when} {the} {adj} {hero} {went} {near} {the} {adj} {place}.",
    "{near} {the} {place} {the} {hero} {went} {how}.",
    "{how}, {the} {adj} {hero} {took} {the} {place}.",
    "{the} {hero} {went} {join} {who} {took} {the} {adj} {place}.",
    "{who} {took} {the} {adj} {hero} {near} {the} {place}.",
    "{the} {adj} {hero} {how} {went} {near} {the} {place}.",
    "{adj} {join} {adj}, {the} {hero} {took} {the} {place} {when}.",
    "{when}, {who} {went} {join} {the} {hero} {went}.",
)
_STORY_MIDDLES = (
    "{the} {adj} {object} {did} {how}.",
    "{who} {how} {took} {the} {object} {near} {the} {adj} {place}.",
    "{when} {the} {object} {did} {join} {the} {adj} {place} {did}.",
    "{near} {the} {adj} {place}, {the} {adj} {object} {did}.",
    "{the} {object} {did} {near} {the} {place} {join} {who} {went}.",
    "{how} {who} {took} {the} {adj} {object}.",
    "{who} {took} {the} {adj} {place} {join} {the} {object} {did} {how}.",
)
_STORY_ENDS = (
    "{who} {went} {how}.",
    "{the} {adj} {place} {did} {join} {who} {took} {the} {hero}.",
    "{when}, {the} {hero} {how} {took} {the} {adj} {object}.",
    "{near} {the} {place} {who} {went} {how}.",
    "{who} {went} {join} {the} {place} {did}.",
    "{the} {hero} {went} {near} {the} {adj} {place} {join} {the} {object} {did}.",
    "{how}, {who} {took} {the} {place} {when}.",
    "{the} {object} {how} {did}, {join} {who} {went}.",
)

_STORY_VOCABULARY = {word.lower() for words in (HEROES, OBJECTS, *_STORY_WORDS.values()) for word in words}

_STORY_ASKS = (
    "Write a tiny story about {a_hero} and {a_object}.",
    "Tell me a short story about {a_object} and {a_hero}.",
    "Can you make up a little story with {a_hero} and {a_object}?",
    "I want a three-sentence story about {a_hero} and {a_object}.",
    "Please write a very short story. It needs {a_object} and {a_hero}.",
    "pls tell a story about {a_hero} with {a_object}",
    "Make up a tiny tale of {a_hero} who has {a_object}.",
)


def _make_story(rng: random.Random) -> Example:
    cast = {"hero": rng.choice(HEROES), "object": rng.choice(OBJECTS)}
    prompt = _ask(rng, _STORY_ASKS, a_hero=_a(cast["hero"]), a_object=_a(cast["object"]))
    skeletons = (rng.choice(part) for part in (_STORY_STARTS, _STORY_MIDDLES, _STORY_ENDS))
    answer = " ".join(_story_sentence(rng, skeleton, cast) for skeleton in skeletons)
    return Example("stories", prompt, answer, cast)


def _story_sentence(rng: random.Random, skeleton: str, cast: dict[str, str]) -> str:
    def word(slot: re.Match[str]) -> str:
        return cast.get(slot[1]) or rng.choice(_STORY_WORDS[slot[1]])

    return _capitalized(re.sub(r"\{(\w+)\}", word, skeleton))


def _grade_story(example: Example, answer: str) -> bool:
    text = answer.strip()
    sentences = _sentences(text)
    words = [part.strip(",.") for part in text.lower().split()]
    return (
        len(sentences) == 3
        and all(re.fullmatch(r"[A-Z][A-Za-z, ]*\.", sentence) for sentence in sentences)
        and all(word in _STORY_VOCABULARY for word in words)
        and example.facts["hero"] in words
        and example.facts["object"] in words
    )


# functions ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Function:
    """A kind of one-line function: what it does in words, what it may be called, its code."""

    does: tuple[str, ...]
    names: tuple[str, ...]
    argument: str
    doc: str
    result: str


_FUNCTIONS = (
    _Function(
        ("adds {n} to x", "takes x and returns x plus {n}"),
        ("add_{n}", "plus_{n}", "add_{word}", "increase_by_{n}"),
        "x",
        "Return x plus {n}.",
        "x + {n}",
    ),
    _Function(
        ("subtracts {n} from x", "takes x and returns x minus {n}"),
        ("subtract_{n}", "minus_{n}", "subtract_{word}", "decrease_by_{n}"),
        "x",
        "Return x minus {n}.",
        "x - {n}",
    ),
    _Function(
        ("multiplies x by {n}", "takes x and returns {n} times x"),
        ("multiply_by_{n}", "times_{n}", "times_{word}", "scale_by_{n}"),
        "x",
        "Return x times {n}.",
        "x * {n}",
    ),
    _Function(
        ("raises x to the power {n}", "returns x to the power of {n}"),
        ("power_{n}", "to_the_power_{n}", "raise_to_{word}"),
        "x",
        "Return x to the power {n}.",
        "x ** {n}",
    ),
    _Function(
        ("checks whether x is divisible by {n}", "tells if x can be divided by {n}"),
        ("is_divisible_by_{n}", "divisible_by_{word}", "check_{n}"),
        "x",
        "Return whether x is divisible by {n}.",
        "x % {n} == 0",
    ),
    _Function(
        ("returns the larger of a and b", "gives the maximum of two numbers a and b"),
        ("max_of_two", "larger", "bigger_number", "pick_larger"),
        "a, b",
        "Return the larger of a and b.",
        "max(a, b)",
    ),
    _Function(
        ("returns the smaller of a and b", "gives the minimum of two numbers a and b"),
        ("min_of_two", "smaller", "lesser_number", "pick_smaller"),
        "a, b",
        "Return the smaller of a and b.",
        "min(a, b)",
    ),
    _Function(
        ("greets a person by name with {greeting}", "says {greeting} to a name"),
        ("greet", "say_hello", "greeting", "greet_person"),
        "name",
        "Return a greeting for name.",
        '"{greeting}, " + name + "!"',
    ),
    _Function(
        ("sums a list of numbers", "adds up all numbers in a list"),
        ("sum_list", "total", "add_all", "list_sum"),
        "numbers",
        "Return the sum of numbers.",
        "sum(numbers)",
    ),
    _Function(
        ("counts the items greater than {n}", "counts how many items are above {n}"),
        ("count_above_{n}", "count_greater_than_{n}", "count_over_{word}"),
        "items",
        "Return how many items are greater than {n}.",
        "len([item for item in items if item > {n}])",
    ),
    _Function(
        ("returns the first {n} items of a list", "takes a list and gives its first {n} items"),
        ("first_{n}", "first_{word}_items", "take_{n}"),
        "items",
        "Return the first {n} items.",
        "items[:{n}]",
    ),
    _Function(
        ("reverses a string", "returns a text backwards"),
        ("reverse_string", "backwards", "flip_text", "reverse_text"),
        "text",
        "Return text backwards.",
        "text[::-1]",
    ),
    _Function(
        ("repeats a string {n} times", "returns a text {n} times in a row"),
        ("repeat_{n}_times", "repeat_{word}", "repeat_{n}"),
        "text",
        "Return text repeated {n} times.",
        "text * {n}",
    ),
    _Function(
        ("converts celsius to fahrenheit", "turns degrees celsius into fahrenheit"),
        ("celsius_to_fahrenheit", "to_fahrenheit", "c_to_f", "convert_celsius"),
        "celsius",
        "Return celsius in degrees fahrenheit.",
        "celsius * 9 / 5 + 32",
    ),
)

_GREETING_WORDS = ("Hello", "Hi", "Welcome", "Goodbye", "Thanks", "Congratulations")

_NAMED_FUNCTION_ASKS = (
    "Write a Python function called {name} that {does}.",
    "Can you write a function {name} in Python that {does}?",
    "I need a Python function named {name}. It {does}.",
    "Please define {name} in Python. It {does}.",
    "python function {name} that {does} pls",
    "Show me a Python function {name} which {does}.",
)
_NAMELESS_FUNCTION_ASKS = (
    "Write a Python function that {does}.",
    "I need a function in Python that {does}.",
    "How do I write a Python function that {does}?",
)


def _make_function(rng: random.Random) -> Example:
    kind, n = rng.choice(_FUNCTIONS), rng.randint(2, 30)
    word, greeting = in_words(n).replace("-", "_"), rng.choice(_GREETING_WORDS)
    blanks = {"n": n, "word": word, "greeting": greeting}
    does = rng.choice(kind.does).format(**blanks)
    if rng.random() < 0.75:
        name = rng.choice(kind.names).format(**blanks)
        prompt = _ask(rng, _NAMED_FUNCTION_ASKS, name=name, does=does)
    else:
        # A function that is not given a name gets the first one of its kind.
        name = kind.names[0].format(**blanks)
        prompt = _ask(rng, _NAMELESS_FUNCTION_ASKS, does=does)
    code = (
        f"def {name}({kind.argument}):\n"
        f'    """{kind.doc.format(**blanks)}"""\n'
        f"    return {kind.result.format(**blanks)}"
    )
    answer = f"Here is the function:\n```python\n{code}\n```"
    return Example("functions", prompt, answer, {"code": code})


def _grade_function(example: Example, answer: str) -> bool:
    block = re.fullmatch(r"[^`]*```python\n([^`]*)\n```\s*", answer)
    return block is not None and _syntax(block[1]) == _syntax(example.facts["code"])


def _syntax(code: str) -> str | None:
    """The code's syntax tree as text, None if it has none; the code is read, never run."""
    # Far longer than any right answer; very deep nesting could exhaust the parser.
    if len(code) > 1000:
        return None
    try:
        return ast.dump(ast.parse(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


# tables ---------------------------------------------------------------------------------------

_TABLE_ASKS = (
    "Write the {n} times table up to {rows}.",
    "Write the {n} times table from 1 to {rows}.",
    "Can you show me the {n} times table up to {rows}?",
    "Give me the multiplication table of {n} up to {rows}.",
    "I need the {n} times table, {rows} rows.",
    "Multiplication table for {n}, first {rows} lines, please.",
    "List the first {rows} lines of the table of {n}.",
    "pls write the {n} times table up to {rows}",
)
_STEP_ASKS = (
    "Count by {n} up to {last}.",
    "Count from {n} to {last} in steps of {n}.",
    "Can you count by {n} until {last}?",
    "Skip count by {n} to {last}, please.",
    "Write the multiples of {n} up to {last}.",
    "List all multiples of {n} from {n} to {last}.",
)
_PARITY_ASKS = (
    "List the {kind} numbers from {low} to {high}.",
    "Write all {kind} numbers from {low} to {high}.",
    "What are the {kind} numbers from {low} to {high}?",
    "Can you give me the {kind} numbers from {low} up to {high}?",
    "Show me every {kind} number from {low} to {high}.",
)


def _make_table(rng: random.Random) -> Example:
    return rng.choices((_times_table, _multiples, _parity), (4, 2, 2))[0](rng)


def _times_table(rng: random.Random) -> Example:
    n, rows = rng.randint(2, 12), rng.randint(4, 10)
    prompt = _ask(rng, _TABLE_ASKS, n=n, rows=rows)
    lines = "\n".join(f"{n} x {row} = {n * row}" for row in range(1, rows + 1))
    conclusion = f"Here is the {n} times table up to {rows}:\n{lines}"
    return _concluding("tables", prompt, "", conclusion)


def _multiples(rng: random.Random) -> Example:
    n, steps = rng.randint(2, 12), rng.randint(4, 10)
    prompt = _ask(rng, _STEP_ASKS, n=n, last=n * steps)
    counted = _listed(range(n, n * steps + 1, n))
    return _concluding("tables", prompt, "", f"Counting by {n} up to {n * steps}: {counted}.")


def _parity(rng: random.Random) -> Example:
    low = rng.randint(1, 80)
    high, odd = low + rng.randint(6, 19), rng.randrange(2)
    kind = "odd" if odd else "even"
    prompt = _ask(rng, _PARITY_ASKS, kind=kind, low=low, high=high)
    numbers = [number for number in range(low, high + 1) if number % 2 == odd]
    steps = f"The first one is {numbers[0]} and the last one is {numbers[-1]}."
    conclusion = f"The {kind} numbers from {low} to {high} are {_listed(numbers)}."
    return _concluding("tables", prompt, steps, conclusion)


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("word-problems", "Word problems", _make_word_problem, _grade_word_problem, 1.5),
        Task("units", "Unit conversion", _make_unit, _concludes),
        Task("weekdays", "Weekdays and months", _make_weekday, _concludes),
        Task("sorting", "Sorting lists", _make_sorting, _concludes, 2.0),
        Task("reversing", "Reversing lists and words", _make_reversing, _concludes, 1.5),
        Task("letters", "Counting letters", _make_letters, _concludes, 1.25),
        Task("number-words", "Numbers in words", _make_number_words, _concludes),
        Task("world-facts", "Facts about the world", _make_world_fact, _concludes, 1.25),
        Task("notes", "Short letters", _make_note, _grade_note),
        Task("stories", "Tiny stories", _make_story, _grade_story),
        Task("functions", "Python functions", _make_function, _grade_function),
        Task("tables", "Number tables", _make_table, _concludes),
    )
}
