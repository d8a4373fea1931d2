"""Short letters, invitations and reminders from a list of fields."""

import random
import re

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import LONGEST, kinds, request, skill, texts

TEXT = texts("letters-from-notes")
ASKS, LETTERS = kinds("letters-from-notes"), kinds("letters-from-notes", "letters")


def _date(rng: random.Random) -> str:
    return words.long_date(words.date(rng))


# The generator of each field of a letter.
FIELDS = {
    **dict.fromkeys(("event", "occasion"), words.one_of(TEXT["occasions"])),
    **dict.fromkeys(("date", "due date", "new date", "first day", "last day"), _date),
    "time": words.clock,
    **dict.fromkeys(("place", "address"), words.address),
    **dict.fromkeys(("gift", "item"), words.one_of(words.GIFTS)),
    "company": words.one_of(words.COMPANIES),
    **dict.fromkeys(("invoice", "order"), words.code),
    "amount": words.price,
    "deputy": words.person,
}


def make(rng: random.Random, unseen: bool) -> Example:
    letter = LETTERS.pick(rng, unseen)
    to, sender = rng.sample(words.FIRST_NAMES, 2)
    fields = {"to": to, "from": sender} | {field: FIELDS[field](rng) for field in letter["fields"]}
    order = rng.sample(list(fields), len(fields))
    style = rng.choice(("{}: {}", "- {}: {}", "{} = {}"))
    notes = "\n".join(style.format(field, fields[field]) for field in order)
    prompt = request(rng, ASKS.pick(rng, unseen), notes, kind=letter["kind"])
    answer = f"Dear {to},\n\n{letter['body'].format(**fields)}\n\nBest regards,\n{sender}"
    return Example("letters-from-notes", prompt, answer, {"fields": fields, "prompt": prompt})


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer has greeting, every field once and signature, and invents no number."""
    answer, fields = answer[:LONGEST].strip(), example.facts["fields"]
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    if len(lines) < 3 or lines[0] != f"Dear {fields['to']}," or lines[-1] != fields["from"]:
        return False
    body = " ".join(lines[1:-1])
    values = [str(value) for field, value in fields.items() if field not in ("to", "from")]
    invented = set(re.findall(r"\d+", answer)) - set(re.findall(r"\d+", example.facts["prompt"]))
    return all(body.count(value) == 1 for value in values) and not invented and len(body.split()) <= 60


TASK = skill("letters-from-notes", "Letters from notes", make, grade)
