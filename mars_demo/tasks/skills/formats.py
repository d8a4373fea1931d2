"""Dates and phone numbers in another format, with a step for each."""

import datetime
import random
import re
from collections.abc import Sequence

from mars_demo.tasks.common import Example, same
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import and_list, lines_of, request, skill, texts, with_bullets

DATES, PHONES = texts("dates"), texts("phones")
DATE_SOURCES = [form for form in DATES.forms if form not in ("YYYYMMDD", "DD-MM-YYYY")]
DATE_NAMES = {form: names for form, names, _ in DATES.targets.seen}
PHONE_SOURCES = [form for form, _ in PHONES.forms.seen]
_STYLE = re.compile("format|notation|standard")
_PLURAL = re.compile(r"\{several\}|\b(dates|numbers|these|those|them|ones|each|every|list|all)\b", re.I)
_BULLETS = ("{}", "{}", "{}", "- {}", "* {}", "• {}", "{n}. {}", "{n}) {}")


def _names_values(phrasing: str) -> bool:
    return "{one}" in phrasing or "{several}" in phrasing


def _count(rng: random.Random, phrasing: str) -> int:
    """Return how many values fit a phrasing.

    A phrasing with `{one}` takes one value in its sentence, and one with `{several}` two or three. Others
    take one to three lines, or at least two if their words are plural.
    """
    if "{one}" in phrasing:
        return 1
    return rng.randint(2 if _PLURAL.search(phrasing) else 1, 3)


def _request(rng: random.Random, phrasing: str, values: Sequence[str], **fields: object) -> str:
    if not _names_values(phrasing):
        material = with_bullets(rng.choice(_BULLETS) if len(values) > 1 else "{}", values)
    elif any("," in value for value in values):
        material = "; ".join(values)
    else:
        material = rng.choice((and_list, ", ".join))(values)
    phrasing = phrasing.replace("{one}", "{material}").replace("{several}", "{material}")
    return request(rng, phrasing, material, **fields)


def _results(answer: str) -> list[str]:
    """Return the result of each line of an answer, which stands after an arrow or alone."""
    lines = lines_of(answer)
    return [line.partition("->")[2].strip() if line.count("->") == 1 else line for line in lines]


def _dates(rng: random.Random, unseen: bool) -> Example:
    phrasing = DATES.asks.pick(rng, unseen)
    target, names, ways = DATES.targets.pick(rng, unseen)
    is_named = "{source}" in phrasing
    sources = [form for form in (DATE_NAMES if is_named else DATE_SOURCES) if form != target]
    source = rng.choice(sources)
    dates = _drawn_dates(rng, _count(rng, phrasing), is_named)
    mixed = not is_named and rng.random() < 0.25
    given = [words.dated(day, DATES.forms[rng.choice(sources) if mixed else source]) for day in dates]
    fields = _date_fields(rng, target, names, ways)
    fields["source"] = rng.choice(DATE_NAMES.get(source, [source]))
    return _dates_example(_request(rng, phrasing, given, **fields), dates, target)


def _more_dates(rng: random.Random, example: Example, unseen: bool) -> Example:
    """Return a request for other dates in the same form, or for the same dates in another form."""
    phrasing, old = DATES.follow_ups.pick(rng, unseen), example.facts["target"]
    if _names_values(phrasing):
        dates = _drawn_dates(rng, _count(rng, phrasing))
        source = rng.choice([form for form in DATE_SOURCES if form != old])
        given = [words.dated(day, DATES.forms[source]) for day in dates]
        return _dates_example(_request(rng, phrasing, given), dates, old)
    target, names, ways = rng.choice([kind for kind in DATES.targets.of(unseen) if kind[0] != old])
    prompt = request(rng, phrasing, **_date_fields(rng, target, names, ways))
    return _dates_example(prompt, example.facts["dates"], target)


def _drawn_dates(rng: random.Random, count: int, any_day: bool = False) -> list[datetime.date]:
    """Return random dates, with days after the 12th, which are no months, unless any day will do."""
    dates = [words.date(rng) for _ in range(count)]
    return dates if any_day else [day.replace(day=rng.randint(13, 28)) for day in dates]


def _date_fields(rng: random.Random, target: str, names: list[str], ways: list[str]) -> dict[str, str]:
    """Return a form as a phrasing may name it: by a name, a way of writing, or an example."""
    name, (day,) = rng.choice(names), _drawn_dates(rng, 1)
    example = words.dated(day, DATES.forms[target])
    named = f"in {name}" if _STYLE.search(name) else f"as {name}"
    way = rng.choice((rng.choice(ways), rng.choice(ways), named, f"like {example}"))
    return {"target": name, "way": way, "example": example}


def _dates_example(prompt: str, dates: list[datetime.date], target: str) -> Example:
    lines = [
        f"Year {day.year}, month {day.month:02} ({words.MONTHS[day.month - 1]}), day {day.day:02}"
        f" -> {words.dated(day, DATES.forms[target])}"
        for day in dates
    ]
    return Example("dates", prompt, "\n".join(lines), {"dates": dates, "target": target})


def _phones(rng: random.Random, unseen: bool) -> Example:
    phrasing = PHONES.asks.pick(rng, unseen)
    form, ways = PHONES.forms.pick(rng, unseen)
    numbers = _drawn_phones(rng, _count(rng, phrasing))
    prompt = _request(rng, phrasing, _given_phones(rng, numbers, form), **_phone_fields(rng, form, ways))
    return _phones_example(prompt, numbers, form)


def _more_phones(rng: random.Random, example: Example, unseen: bool) -> Example:
    """Return a request for other numbers in the same form, or for the same numbers in another form."""
    phrasing, old = PHONES.follow_ups.pick(rng, unseen), example.facts["form"]
    if _names_values(phrasing):
        numbers = _drawn_phones(rng, _count(rng, phrasing))
        return _phones_example(_request(rng, phrasing, _given_phones(rng, numbers, old)), numbers, old)
    form, ways = rng.choice([kind for kind in PHONES.forms.of(unseen) if kind[0] != old])
    prompt = request(rng, phrasing, **_phone_fields(rng, form, ways))
    return _phones_example(prompt, example.facts["numbers"], form)


def _drawn_phones(rng: random.Random, count: int) -> list[str]:
    return [rng.choice("23456789") + "".join(rng.choices("0123456789", k=9)) for _ in range(count)]


def _given_phones(rng: random.Random, numbers: list[str], form: str) -> list[str]:
    """Return numbers in other forms; only forms with a country code have sources with one."""
    sources = [source for source in PHONE_SOURCES if source != form and ("+" in form or "+" not in source)]
    source, mixed = rng.choice(sources), rng.random() < 0.5
    return [_formatted(rng.choice(sources) if mixed else source, number) for number in numbers]


def _phone_fields(rng: random.Random, form: str, ways: list[str]) -> dict[str, str]:
    """Return a form as a phrasing may name it: by a pattern, a way of writing, or an example."""
    example = _formatted(form, rng.choice(("5551234567", *_drawn_phones(rng, 2))))
    way = rng.choice((rng.choice(ways), rng.choice(ways), f"as {form}", f"like {example}"))
    return {"form": form, "way": way, "example": example}


def _phones_example(prompt: str, numbers: list[str], form: str) -> Example:
    answer = "\n".join(f"{' '.join(number)} -> {_formatted(form, number)}" for number in numbers)
    return Example("phones", prompt, answer, {"numbers": numbers, "form": form})


def _formatted(form: str, digits: str) -> str:
    rest = iter(digits)
    return "".join(next(rest) if sign == "X" else sign for sign in form)


DATE_FORMATS = skill("dates", "Dates in another form", _dates, same(_results), _more_dates)
PHONE_FORMATS = skill("phones", "Phone numbers in another form", _phones, same(_results), _more_phones)
