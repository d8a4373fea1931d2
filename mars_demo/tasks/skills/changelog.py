"""Changelogs and commit messages from lists of changes."""

import random

from mars_demo.tasks.common import Example, same
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import lines_of, request, skill, texts

TEXT = texts("changelog")  # `changes` and `commits` are phrases by kind or type


def make(rng: random.Random, unseen: bool) -> Example:
    return (_log if rng.random() < 0.6 else _commit)(rng, unseen)


def _log(rng: random.Random, unseen: bool) -> Example:
    version = f"{rng.choice(('', '', 'v'))}{rng.randint(0, 9)}.{rng.randint(0, 20)}.{rng.randint(0, 9)}"
    date = words.dated(words.date(rng), rng.choice(TEXT.dates))
    kinds = sorted(rng.sample(list(TEXT.changes), rng.randint(2, 3)))
    changes = [
        (kind, change.format(rng.choice(TEXT.parts)))
        for kind in kinds
        for change in rng.sample(TEXT.changes[kind], rng.randint(1, 2))
    ]
    rng.shuffle(changes)
    style, case = TEXT.styles.pick(rng, unseen), rng.choice((str, str.lower))
    notes = "\n".join(style.format(kind=case(kind), change=change) for kind, change in changes)
    blocks = (
        "\n".join([f"### {kind}", *(f"- {change}" for key, change in changes if key == kind)])
        for kind in kinds
    )
    answer = "\n\n".join([f"## {version} - {date}", *blocks])
    prompt = request(rng, TEXT.asks_log.pick(rng, unseen), notes, version=version, date=date)
    return Example("changelog", prompt, answer)


def _commit(rng: random.Random, unseen: bool) -> Example:
    kind, part = rng.choice(list(TEXT.commits)), rng.choice(TEXT.parts)
    summary, issue = rng.choice(TEXT.commits[kind]), f"#{rng.randint(2, 900)}"
    fields = {"type": kind, "scope": part, "summary": summary, "issue": issue}
    style = TEXT.fields.pick(rng, unseen)
    notes = "\n".join(style.format(field, fields[field]) for field in rng.sample(list(fields), len(fields)))
    answer = f"{kind}({part}): {summary}\n\nRefs: {issue}"
    prompt = request(rng, TEXT.asks_commit.pick(rng, unseen), notes)
    return Example("changelog", prompt, answer)


TASK = skill("changelog", "Changelogs and commits", make, same(lines_of))
