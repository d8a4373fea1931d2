"""Changelogs and commit messages from given changes."""

from __future__ import annotations

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import LONGEST, Kinds, lines_of, request, skill

PARTS = (
    "parser", "login", "search", "export", "settings", "menu", "cache", "editor", "upload", "report", "API",
    "sidebar", "calendar", "billing", "map", "player", "inbox", "printer", "toolbar", "database",
)  # fmt: skip
# For each kind of change: its type in a commit, and phrases about a part.
CHANGES = {
    "Added": ("feat", ("dark mode for the {}", "keyboard shortcuts in the {}", "a help page for the {}",
                       "undo in the {}", "tests for the {}")),
    "Fixed": ("fix", ("a crash in the {}", "slow loading of the {}", "a typo in the {}",
                      "wrong dates in the {}", "empty input in the {}")),
    "Changed": ("refactor", ("shorter names in the {}", "larger buttons in the {}", "the layout of the {}",
                             "the default of the {}")),
    "Removed": ("chore", ("the old {}", "unused code of the {}", "a debug flag of the {}")),
}  # fmt: skip
LOG_ASKS = Kinds(
    seen=(
        "Write the changelog for version {version} of {date}, with a heading per kind of change.",
        "Make a changelog entry in Markdown, version {version}, date {date}, grouped by kind.",
        "Turn these notes into the changelog of {version} ({date}). One heading per kind, then bullets.",
        "Changelog for {version}, released {date}, grouped under headings please.",
    ),
    unseen=(
        "We release {version} on {date}. Sort these notes into a changelog with headings.",
        "Version {version} came out on {date}: list what changed, by kind, as a changelog.",
    ),
)
COMMIT_ASKS = Kinds(
    seen=(
        "Write a commit message of the form type(scope): summary, then a line Refs.",
        "Make a commit message from this: type(scope): summary, and Refs below.",
        "Commit message please, as type(scope): summary with a Refs line at the end.",
    ),
    unseen=(
        "How would I commit this? First line type(scope): summary, last line Refs.",
        "Give these fields the form of a commit, type(scope): summary plus Refs.",
    ),
)


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
    prompt = request(rng, LOG_ASKS.pick(rng, unseen).format(version=version, date=date), notes)
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
    """Return whether the answer has the right lines, blank ones aside."""
    return lines_of(answer[:LONGEST]) == example.facts["lines"]


TASK = skill("changelog", "Changelogs and commits", make, grade)
