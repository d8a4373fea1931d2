"""Dates in another format, with the steps."""

import datetime
import random
import re

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import request, same, skill, texts
from mars_demo.tasks.skills.inline import count, request_with, results_of

TEXT = texts("dates")
SOURCES = [form for form in TEXT.forms if form not in ("YYYYMMDD", "DD-MM-YYYY")]
_STYLE = re.compile("format|notation|standard")
NAMES = {form: names for form, names, _ in TEXT.targets.seen}


def make(rng: random.Random, unseen: bool) -> Example:
    phrasing = TEXT.asks.pick(rng, unseen)
    target, names, ways = TEXT.targets.pick(rng, unseen)
    sources = [form for form in (NAMES if "{source}" in phrasing else SOURCES) if form != target]
    source = rng.choice(sources)
    dates = _dates(rng, count(rng, phrasing), "{source}" in phrasing)
    mixed = "{source}" not in phrasing and rng.random() < 0.25
    given = [words.dated(day, TEXT.forms[rng.choice(sources) if mixed else source]) for day in dates]
    fields = _named(rng, target, names, ways) | {"source": rng.choice(NAMES.get(source, [source]))}
    return _example(request_with(rng, phrasing, given, **fields), dates, target)


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example:
    """Return a request for other dates in the same form, or for the same dates in another form."""
    phrasing, old = TEXT.follow_ups.pick(rng, unseen), example.facts["target"]
    if "{one}" in phrasing or "{several}" in phrasing:
        dates = _dates(rng, count(rng, phrasing), False)
        source = rng.choice([form for form in SOURCES if form != old])
        given = [words.dated(day, TEXT.forms[source]) for day in dates]
        return _example(request_with(rng, phrasing, given), dates, old)
    target, names, ways = rng.choice([kind for kind in TEXT.targets.of(unseen) if kind[0] != old])
    prompt = request(rng, phrasing, **_named(rng, target, names, ways))
    return _example(prompt, example.facts["dates"], target)


def _dates(rng: random.Random, number: int, any_day: bool) -> list[datetime.date]:
    """Return random dates, with days after the 12th, which are no months, unless any day will do."""
    dates = [words.date(rng) for _ in range(number)]
    return dates if any_day else [day.replace(day=rng.randint(13, 28)) for day in dates]


def _named(rng: random.Random, target: str, names: list[str], ways: list[str]) -> dict[str, str]:
    """Return a form as a phrasing may name it: by a name, a way of writing, or an example."""
    name, (day,) = rng.choice(names), _dates(rng, 1, False)
    example = words.dated(day, TEXT.forms[target])
    named = f"in {name}" if _STYLE.search(name) else f"as {name}"
    way = rng.choice((rng.choice(ways), rng.choice(ways), named, f"like {example}"))
    return {"target": name, "way": way, "example": example}


def _example(prompt: str, dates: list[datetime.date], target: str) -> Example:
    answer = "\n".join(f"{_steps(day)} -> {words.dated(day, TEXT.forms[target])}" for day in dates)
    return Example("dates", prompt, answer, {"dates": dates, "target": target})


def _steps(day: datetime.date) -> str:
    return f"Year {day.year}, month {day.month:02} ({words.MONTHS[day.month - 1]}), day {day.day:02}"


TASK = skill("dates", "Dates in another form", make, same(results_of), follow_up)
