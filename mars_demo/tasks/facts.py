"""Facts: units, weekdays and months, and tables of countries, elements, young animals and planets."""

import random

from mars_demo.tasks.common import DAYS, TEXTS, Example, Task, ask, concludes, concluding, listed, quantity

UNITS = TEXTS["units"]["units"]  # singular, plural, the smaller unit, and the factor
MONTHS = [month.split() for month in TEXTS["words"]["months"].split(", ")]  # each with its length
ORDINALS = TEXTS["words"]["ordinals"].split()
WEEKDAYS = TEXTS["weekdays"]
TABLES = {
    name: [line.split("|") for line in lines] for name, lines in TEXTS["world-facts"]["tables"].items()
}
# Each with a relation, which has questions about one column of a table, and a key and a value.
FACTS = [
    (relation, row[0], row[relation["column"]])
    for relation in TEXTS["world-facts"]["relations"]
    for row in TABLES[relation["table"]]
]


def _conversion(rng: random.Random) -> Example:
    one, large, small, factor = rng.choice(UNITS)
    n = rng.randint(2, 20 if factor in (10, 100, 1000) else 12)
    prompt = ask(rng, TEXTS["units"]["asks"], n=n, large=large, small=small)
    product = f"{n * factor:,}"
    steps = (
        f"1 {one} is {factor:,} {small}. {n} {large} is {_product_shown(n, factor)} = {product} {small}."
    )
    return concluding("units", prompt, steps, f"So {n} {large} is {product} {small}.")


def _product_shown(n: int, factor: int) -> str:
    shown = f"{n} x {factor:,}"
    if n <= 10 or factor in (10, 100, 1000):
        return shown
    ones = n - 10
    return f"{shown} = 10 x {factor} + {ones} x {factor} = {10 * factor} + {ones * factor}"


def _day_or_month(rng: random.Random) -> Example:
    # Months are less frequent, because they make few different prompts.
    return _month(rng) if rng.random() < 0.15 else _day(rng)


def _day(rng: random.Random) -> Example:
    n, start, later = rng.randint(1, 60), rng.randrange(7), rng.random() < 0.6
    step = 1 if later else -1
    weeks, rest = divmod(n, 7)
    day, days, whole = DAYS[start], quantity(n, "day"), quantity(weeks, "week")
    if not weeks:
        steps = [f"{days} is less than a week."]
    else:
        size = f"{whole} and {quantity(rest, 'day')}" if rest else f"exactly {whole}"
        steps = [f"{days} is {size}.", f"{whole} {'later' if later else 'earlier'} it is {day}."]
    if rest:
        # Numbered days show where to stop.
        counted = [f"{DAYS[(start + step * i) % 7]} ({i})" for i in range(1, rest + 1)]
        steps.append(f"Counting {'on' if later else 'back'} from {day}: {listed(counted)}.")
    prompt = ask(rng, WEEKDAYS["later" if later else "earlier"], n=days, day=day)
    conclusion = f"So it is {DAYS[(start + step * rest) % 7]}."
    return concluding("weekdays", prompt, " ".join(steps), conclusion)


def _month(rng: random.Random) -> Example:
    index, question = rng.randrange(12), rng.choice(list(WEEKDAYS["months"]))
    month, length = MONTHS[index]
    after, before = MONTHS[(index + 1) % 12][0], MONTHS[(index - 1) % 12][0]
    leap = ", or 29 in a leap year" if month == "February" else ""
    says = {
        "length": f"{month} has {length} days{leap}.",
        "next": f"The month after {month} is {after}.",
        "previous": f"The month before {month} is {before}.",
        "place": f"{month} is the {ORDINALS[index]} month of the year.",
    }
    prompt = ask(rng, WEEKDAYS["months"][question], month=month)
    return concluding("weekdays", prompt, "", says[question])


def _fact(rng: random.Random) -> Example:
    relation, key, value = rng.choice(FACTS)
    prompt = ask(rng, relation["asks"], key=key)
    return concluding("world-facts", prompt, "", relation["says"].format(key=key, value=value))


CONVERSIONS = Task("units", "Unit conversion", _conversion, concludes)
DATES = Task("weekdays", "Weekdays and months", _day_or_month, concludes)
WORLD = Task("world-facts", "Facts about the world", _fact, concludes, 1.25)
