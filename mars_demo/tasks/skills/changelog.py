"""Changelogs and commit messages from lists of changes."""

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import kinds, lines_of, request, skill, texts

TEXT = texts("changelog")
LOG_ASKS, COMMIT_ASKS = kinds("changelog", "asks_log"), kinds("changelog", "asks_commit")
STYLES, FIELDS = kinds("changelog", "styles"), kinds("changelog", "fields")  # forms of a line of notes
PARTS = TEXT["parts"]
DATES = ("{day:%Y-%m-%d}", "{day:%Y-%m-%d}", words.LONG_DATE, "{day:%d.%m.%Y}")
CHANGES, COMMITS = TEXT["changes"], TEXT["commits"]  # phrases by kind of change or type of commit


def make(rng: random.Random, unseen: bool) -> Example:
    return (_log if rng.random() < 0.6 else _commit)(rng, unseen)


def _log(rng: random.Random, unseen: bool) -> Example:
    version = f"{rng.choice(('', '', 'v'))}{rng.randint(0, 9)}.{rng.randint(0, 20)}.{rng.randint(0, 9)}"
    date = words.dated(words.date(rng), rng.choice(DATES))
    kinds = sorted(rng.sample(list(CHANGES), rng.randint(2, 3)))
    changes = [
        (kind, change.format(rng.choice(PARTS)))
        for kind in kinds
        for change in rng.sample(CHANGES[kind], rng.randint(1, 2))
    ]
    rng.shuffle(changes)
    style, case = STYLES.pick(rng, unseen), rng.choice((str, str.lower))
    notes = "\n".join(style.format(kind=case(kind), change=change) for kind, change in changes)
    blocks = (
        "\n".join([f"### {kind}", *(f"- {change}" for key, change in changes if key == kind)])
        for kind in kinds
    )
    answer = "\n\n".join([f"## {version} - {date}", *blocks])
    prompt = request(rng, LOG_ASKS.pick(rng, unseen), notes, version=version, date=date)
    return Example("changelog", prompt, answer, {"lines": lines_of(answer)})


def _commit(rng: random.Random, unseen: bool) -> Example:
    kind, part = rng.choice(list(COMMITS)), rng.choice(PARTS)
    summary, issue = rng.choice(COMMITS[kind]), f"#{rng.randint(2, 900)}"
    fields = {"type": kind, "scope": part, "summary": summary, "issue": issue}
    style = FIELDS.pick(rng, unseen)
    notes = "\n".join(style.format(field, fields[field]) for field in rng.sample(list(fields), len(fields)))
    answer = f"{kind}({part}): {summary}\n\nRefs: {issue}"
    prompt = request(rng, COMMIT_ASKS.pick(rng, unseen), notes)
    return Example("changelog", prompt, answer, {"lines": lines_of(answer)})


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer has the right lines, ignoring blank ones."""
    return lines_of(answer) == example.facts["lines"]


TASK = skill("changelog", "Changelogs and commits", make, grade)
