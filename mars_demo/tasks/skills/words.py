"""Names, things and numbers for requests."""

import datetime
import random
from collections.abc import Callable, Sequence

from mars_demo.tasks.common import DAYS as DAYS  # re-exported with the words here
from mars_demo.tasks.skills.common import texts

_WORDS = texts("words")
FIRST_NAMES, LAST_NAMES = _WORDS["first_names"].split(), _WORDS["last_names"].split()
CITIES, STREETS, MONTHS = _WORDS["cities"].split(), _WORDS["streets"].split(), _WORDS["months"].split()
PRODUCTS, COMPANIES = _WORDS["products"], _WORDS["companies"]
GIFTS = [product for product in PRODUCTS if product[0] not in "aeiou"]  # with the article "a"
GROUPS = _WORDS["groups"] | {"cities": _WORDS["cities"], "names": _WORDS["first_names"]}


def one_of(values: Sequence[str]) -> Callable[[random.Random], str]:
    """Return a function that draws one of these values."""
    return lambda rng: rng.choice(values)


def person(rng: random.Random) -> str:
    return f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"


def email(rng: random.Random) -> str:
    first, last = rng.choice(FIRST_NAMES).lower(), rng.choice(LAST_NAMES).lower()
    return f"{first}{rng.choice(('.', '_', ''))}{last}@example.{rng.choice(('com', 'org', 'net'))}"


def date(rng: random.Random) -> datetime.date:
    return datetime.date(2015, 1, 1) + datetime.timedelta(days=rng.randrange(365 * 20))


def long_date(day: datetime.date) -> str:
    return f"{MONTHS[day.month - 1]} {day.day}, {day.year}"


def clock(rng: random.Random) -> str:
    return f"{rng.randint(7, 21)}:{rng.choice(('00', '15', '30', '45'))}"


def address(rng: random.Random) -> str:
    return f"{rng.randint(1, 99)} {rng.choice(STREETS)} {rng.choice(('Street', 'Road', 'Lane', 'Avenue'))}"


def code(rng: random.Random) -> str:
    return f"{rng.choice('ABCDEFGHKLMNPRST')}{rng.choice('ABCDEFGHKLMNPRST')}-{rng.randint(1000, 9999)}"


def price(rng: random.Random) -> str:
    return f"{rng.randint(3, 199)}.{rng.choice(('00', '20', '50', '75', '90', '99'))}"
