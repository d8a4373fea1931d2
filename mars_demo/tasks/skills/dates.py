"""Dates in another format, with the steps."""

import datetime
import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import LONGEST, kinds, lines_of, request, skill

FORMS = {
    "Month D, YYYY": words.long_date,
    "D Month YYYY": lambda day: f"{day.day} {words.MONTHS[day.month - 1]} {day.year}",
    "YYYY-MM-DD": lambda day: day.isoformat(),
    "DD.MM.YYYY": lambda day: f"{day:%d.%m.%Y}",
    "MM/DD/YYYY": lambda day: f"{day:%m/%d/%Y}",
    "DD/MM/YYYY": lambda day: f"{day:%d/%m/%Y}",
    "YYYYMMDD": lambda day: f"{day:%Y%m%d}",
}
ASKS, TARGETS = kinds("dates"), kinds("dates", "targets")
SOURCES = ("Month D, YYYY", "D Month YYYY", "YYYY-MM-DD", "DD.MM.YYYY", "MM/DD/YYYY")


def make(rng: random.Random, unseen: bool) -> Example:
    target = TARGETS.pick(rng, unseen)
    source = rng.choice([form for form in SOURCES if form != target])
    days = [words.date(rng) for _ in range(rng.randint(1, 3))]
    given = "\n".join(FORMS[source](day) for day in days)
    prompt = request(rng, ASKS.pick(rng, unseen), given, source=source, target=target)
    results = [FORMS[target](day) for day in days]
    answer = "\n".join(f"{_steps(day)} -> {result}" for day, result in zip(days, results))
    return Example("dates", prompt, answer, {"dates": results})


def _steps(day: datetime.date) -> str:
    return f"Year {day.year}, month {day.month:02} ({words.MONTHS[day.month - 1]}), day {day.day:02}"


def grade(example: Example, answer: str) -> bool:
    """Return whether each line of the answer ends with its date, after an arrow or alone."""
    values = [line.rpartition("->")[2].strip() for line in lines_of(answer[:LONGEST])]
    return values == example.facts["dates"]


TASK = skill("dates", "Dates in another form", make, grade)
