"""Dates in another form, with the steps."""

from __future__ import annotations

import datetime
import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import LONGEST, Kinds, lines_of, request, skill

FORMS = {
    "Month D, YYYY": words.long_date,
    "D Month YYYY": lambda day: f"{day.day} {words.MONTHS[day.month - 1]} {day.year}",
    "YYYY-MM-DD": lambda day: day.isoformat(),
    "DD.MM.YYYY": lambda day: f"{day:%d.%m.%Y}",
    "MM/DD/YYYY": lambda day: f"{day:%m/%d/%Y}",
    "DD/MM/YYYY": lambda day: f"{day:%d/%m/%Y}",
    "YYYYMMDD": lambda day: f"{day:%Y%m%d}",
}
TARGETS = Kinds(
    seen=("YYYY-MM-DD", "DD.MM.YYYY", "MM/DD/YYYY", "Month D, YYYY", "D Month YYYY"),
    unseen=("DD/MM/YYYY", "YYYYMMDD"),
)
SOURCES = ("Month D, YYYY", "D Month YYYY", "YYYY-MM-DD", "DD.MM.YYYY", "MM/DD/YYYY")
ASKS = Kinds(
    seen=(
        "Write these dates as {target}. They are given as {source}.",
        "Convert from {source} to {target}.",
        "Change the dates below from {source} to {target}.",
        "I need these {source} dates as {target}.",
        "{source} to {target} please.",
        "Reformat as {target} (given: {source}).",
    ),
    unseen=(
        "My form wants {target}, but I have {source}. Rewrite them.",
        "What are these in {target}? They were typed as {source}.",
    ),
)


def make(rng: random.Random, unseen: bool) -> Example:
    target = TARGETS.pick(rng, unseen)
    source = rng.choice([form for form in SOURCES if form != target])
    days = [words.date(rng) for _ in range(rng.randint(1, 3))]
    given = "\n".join(FORMS[source](day) for day in days)
    prompt = request(rng, ASKS.pick(rng, unseen).format(source=source, target=target), given)
    results = [FORMS[target](day) for day in days]
    answer = "\n".join(f"{_steps(day)} -> {result}" for day, result in zip(days, results))
    return Example("dates", prompt, answer, {"dates": results})


def _steps(day: datetime.date) -> str:
    return f"Year {day.year}, month {day.month:02} ({words.MONTHS[day.month - 1]}), day {day.day:02}"


def grade(example: Example, answer: str) -> bool:
    """Return whether each line of the answer ends in its date, after an arrow or alone."""
    found = [line.rpartition("->")[2].strip() for line in lines_of(answer[:LONGEST])]
    return found == example.facts["dates"]


TASK = skill("dates", "Dates in another form", make, grade)
