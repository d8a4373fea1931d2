"""Names, things, dates and numbers for requests, and the patterns that draw them."""

import datetime
import random
from collections.abc import Callable, Mapping, Sequence
from string import Formatter

from mars_demo.tasks.common import DAYS, ordinal
from mars_demo.tasks.skills.common import texts

Draw = Callable[[random.Random], str]

_WORDS = texts("words")
FIRST_NAMES, LAST_NAMES = _WORDS.first_names.split(), _WORDS.last_names.split()
CITIES, STREETS, MONTHS = _WORDS.cities.split(), _WORDS.streets.split(), _WORDS.months.split()
PRODUCTS, COMPANIES = _WORDS.products, _WORDS.companies
GIFTS = [product for product in PRODUCTS if product[0] not in "aeiou"]  # with the article "a"
ONE_GIFT = [gift for gift in GIFTS if not gift.endswith("s")]
GROUPS = {name: group.split() for name, group in _WORDS.groups.items()}
GROUPS |= {"cities": CITIES, "names": FIRST_NAMES}


def one_of(values: Sequence[str]) -> Draw:
    """Return a function that draws one of these values."""
    return lambda rng: rng.choice(values)


def email(rng: random.Random) -> str:
    first, last = rng.choice(FIRST_NAMES).lower(), rng.choice(LAST_NAMES).lower()
    return f"{first}{rng.choice(('.', '_', ''))}{last}@example.{rng.choice(('com', 'org', 'net'))}"


def date(rng: random.Random) -> datetime.date:
    return datetime.date(2015, 1, 1) + datetime.timedelta(days=rng.randrange(365 * 20))


def dated(day: datetime.date, form: str) -> str:
    """Return a date in a form, such as "{day:%d.%m.%Y}" or "{nth} of {month}"."""
    return form.format(day=day, month=MONTHS[day.month - 1], nth=ordinal(day.day))


def any_date(rng: random.Random) -> str:
    """Return a date in one of several forms."""
    day = date(rng)
    return dated(day, rng.choice(_WORDS.dates))


# What a field of a pattern draws, by its name.
NAMED: dict[str, Draw] = {
    **{name: one_of(group) for name, group in GROUPS.items()},
    "first": one_of(FIRST_NAMES),
    "last": one_of(LAST_NAMES),
    "city": one_of(CITIES),
    "street": one_of(STREETS),
    "month": one_of(MONTHS),
    "weekday": one_of(DAYS),
    "product": one_of(PRODUCTS),
    "company": one_of(COMPANIES),
    "gift": one_of(GIFTS),
    "one gift": one_of(ONE_GIFT),
    "a job": one_of([job for job in GROUPS["jobs"] if job[0] not in "aeiou"]),  # with the article "a"
    "email": email,
    "date": any_date,
    "long date": lambda rng: dated(date(rng), _WORDS.dates[0]),
}


def fields_of(pattern: str) -> list[str]:
    """Return the fields of a pattern in its order."""
    return [field for _, field, *_ in Formatter().parse(pattern) if field]


def drawing(pattern: str | Sequence[str], named: Mapping[str, Draw] = NAMED) -> Draw:
    """Return a function that draws a text from a pattern, or from one of several.

    The fields of a pattern are drawn from left to right: "{2..40}" is a number, "{10..90..5}" one in steps,
    "{am|pm}" an alternative, and "{city}" whatever has this name.
    """
    if not isinstance(pattern, str):
        draws = [drawing(alternative, named) for alternative in pattern]
        return lambda rng: rng.choice(draws)(rng)
    parts = [(text, _drawn_field(field, named)) for text, field, *_ in Formatter().parse(pattern)]
    return lambda rng: "".join(text + draw(rng) for text, draw in parts)


def _drawn_field(field: str | None, named: Mapping[str, Draw]) -> Draw:
    if field is None:  # after the last field
        return lambda _: ""
    if ".." in field:
        low, high, *step = map(int, field.split(".."))
        return lambda rng: str(rng.randrange(low, high + 1, *step))
    return one_of(field.split("|")) if "|" in field else named[field]


for _name, _pattern in _WORDS.patterns.items():  # later ones may name earlier ones
    NAMED[_name] = drawing(_pattern)
person, clock, address, price = (NAMED[name] for name in ("person", "clock", "address", "price"))


def drawings(patterns: Mapping[str, str | Sequence[str]], **more: Draw) -> dict[str, Draw]:
    """Return what draws each field of a skill; one pattern may serve several fields, "to, from".

    more: what draws further names in the patterns.
    """
    named = NAMED | more
    pairs = [(field, pattern) for fields, pattern in patterns.items() for field in fields.split(", ")]
    return {field: drawing(pattern, named) for field, pattern in pairs}
