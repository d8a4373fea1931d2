"""Changelogs and commit messages from lists of changes."""

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import LONGEST, kinds, lines_of, request, skill, texts

TEXT = texts("changelog")
LOG_ASKS, COMMIT_ASKS = kinds("changelog", "log"), kinds("changelog", "commit")
PARTS = TEXT["parts"]
CHANGES = TEXT["changes"]  # by kind of change: its type in a commit, and phrases about a part


def make(rng: random.Random, unseen: bool) -> Example:
    return (_log if rng.random() < 0.6 else _commit)(rng, unseen)


def _change(rng: random.Random, kind: str, part: str | None = None) -> str:
    return rng.choice(CHANGES[kind][1]).format(part or rng.choice(PARTS))


def _log(rng: random.Random, unseen: bool) -> Example:
    version = f"{rng.randint(0, 9)}.{rng.randint(0, 20)}.{rng.randint(0, 9)}"
    date = words.date(rng).isoformat()
    kinds = sorted(rng.sample(list(CHANGES), rng.randint(2, 3)))
    changes = [(kind, _change(rng, kind)) for kind in kinds for _ in range(rng.randint(1, 2))]
    changes = list(dict.fromkeys(changes))
    notes = "\n".join(f"{kind.lower()}: {change}" for kind, change in rng.sample(changes, len(changes)))
    order = [line.partition(": ") for line in notes.splitlines()]
    blocks = [
        f"### {kind}\n" + "\n".join(f"- {change}" for name, _, change in order if name == kind.lower())
        for kind in kinds
    ]
    answer = "\n\n".join([f"## {version} - {date}", *blocks])
    prompt = request(rng, LOG_ASKS.pick(rng, unseen), notes, version=version, date=date)
    return Example("changelog", prompt, answer, {"lines": lines_of(answer)})


def _commit(rng: random.Random, unseen: bool) -> Example:
    kind = rng.choice(list(CHANGES))
    type_, part = CHANGES[kind][0], rng.choice(PARTS)
    change = _change(rng, kind, part)
    fields = {"type": type_, "scope": part, "summary": change, "issue": f"#{rng.randint(2, 900)}"}
    notes = "\n".join(f"{field}: {fields[field]}" for field in rng.sample(list(fields), len(fields)))
    answer = f"{type_}({part}): {change}\n\nRefs: {fields['issue']}"
    prompt = request(rng, COMMIT_ASKS.pick(rng, unseen), notes)
    return Example("changelog", prompt, answer, {"lines": lines_of(answer)})


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer has the right lines, ignoring blank ones."""
    return lines_of(answer[:LONGEST]) == example.facts["lines"]


TASK = skill("changelog", "Changelogs and commits", make, grade)
