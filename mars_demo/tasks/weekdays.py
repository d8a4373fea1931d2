"""Weekdays some days later or earlier, and the months of the year."""

import random

from mars_demo.tasks.common import DAYS, TEXTS, Example, Task, ask, concludes, concluding, listed, quantity

MONTHS = (
    ("January", 31), ("February", 28), ("March", 31), ("April", 30), ("May", 31), ("June", 30),
    ("July", 31), ("August", 31), ("September", 30), ("October", 31), ("November", 30),
    ("December", 31),
)  # fmt: skip

ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()

ASKS = TEXTS["weekdays"]


def make(rng: random.Random) -> Example:
    # Months are less frequent, because they make few different prompts.
    return _month(rng) if rng.random() < 0.15 else _day_count(rng)


def _day_count(rng: random.Random) -> Example:
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
    prompt = ask(rng, ASKS["later" if later else "earlier"], n=days, day=day)
    conclusion = f"So it is {DAYS[(start + step * rest) % 7]}."
    return concluding("weekdays", prompt, " ".join(steps), conclusion)


def _month(rng: random.Random) -> Example:
    index, question = rng.randrange(12), rng.choice(list(ASKS["months"]))
    month, length = MONTHS[index]
    after, before = MONTHS[(index + 1) % 12][0], MONTHS[(index - 1) % 12][0]
    leap = ", or 29 in a leap year" if month == "February" else ""
    says = {
        "length": f"{month} has {length} days{leap}.",
        "next": f"The month after {month} is {after}.",
        "previous": f"The month before {month} is {before}.",
        "place": f"{month} is the {ORDINALS[index]} month of the year.",
    }
    prompt = ask(rng, ASKS["months"][question], month=month)
    return concluding("weekdays", prompt, "", says[question])


TASK = Task("weekdays", "Weekdays and months", make, concludes)
