"""Short letters, invitations and reminders from given fields."""

from __future__ import annotations

import random
import re

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import LONGEST, Kinds, request, skill


def _occasion(rng: random.Random) -> str:
    return rng.choice(("birthday party", "housewarming", "garden party", "team dinner", "farewell lunch",
                       "movie night", "barbecue", "book club", "game night", "picnic"))  # fmt: skip


def _date(rng: random.Random) -> str:
    return words.long_date(words.date(rng))


def _first(rng: random.Random) -> str:
    return rng.choice(words.FIRST_NAMES)


def _gift(rng: random.Random) -> str:
    return rng.choice([product for product in words.PRODUCTS if product[0] not in "aeiou"])


def _company(rng: random.Random) -> str:
    return rng.choice(words.COMPANIES)


# For each letter: functions that draw its fields, and the text between greeting and name.
INVITATION = (
    {"event": _occasion, "date": _date, "time": words.clock, "place": words.address},
    "You are invited to the {event} on {date} at {time}. It takes place at {place}. I hope you can come!",
)
THANKS = (
    {"gift": _gift, "occasion": _occasion, "date": _date},
    "Thank you very much for the {gift}. It was lovely to see you at the {occasion} on {date}. "
    "I will think of you whenever I use it.",
)
REMINDER = (
    {"company": _company, "invoice": words.code, "amount": words.price, "due date": _date},
    "This is a reminder from {company}. Invoice {invoice} over {amount} dollars was due on {due date}. "
    "Please pay it this week.",
)
APPOINTMENT = (
    {"company": _company, "date": _date, "time": words.clock, "address": words.address},
    "Your appointment with {company} is on {date} at {time}. The address is {address}. "
    "Please tell us if you cannot come.",
)
APOLOGY = (
    {"order": words.code, "item": _gift, "new date": _date},
    "We are sorry that order {order} is late. Your {item} will arrive on {new date}. "
    "Thank you for your patience.",
)
ABSENCE = (
    {"first day": _date, "last day": _date, "deputy": words.person},
    "I am away from {first day} to {last day}. {deputy} will answer your questions until I am back.",
)
LETTERS = Kinds(
    seen=(
        ("an invitation", *INVITATION),
        ("a thank-you note", *THANKS),
        ("a payment reminder", *REMINDER),
        ("an appointment letter", *APPOINTMENT),
    ),
    unseen=(("an apology", *APOLOGY), ("a notice of absence", *ABSENCE)),
)
ASKS = Kinds(
    seen=(
        "Write {kind} from these details.",
        "Draft {kind} with the following information.",
        "Please write {kind}. Keep it short and use only these details.",
        "Can you make this into {kind}?",
        "I need {kind} from these notes.",
    ),
    unseen=("Compose {kind} out of this data.", "Turn these fields into {kind} that I can send."),
)


def make(rng: random.Random, unseen: bool) -> Example:
    kind, fields, body = LETTERS.pick(rng, unseen)
    to, sender = rng.sample(words.FIRST_NAMES, 2)
    drawn = {"to": to, "from": sender} | {field: draw(rng) for field, draw in fields.items()}
    order = rng.sample(list(drawn), len(drawn))
    style = rng.choice(("{}: {}", "- {}: {}", "{} = {}"))
    notes = "\n".join(style.format(field, drawn[field]) for field in order)
    prompt = request(rng, ASKS.pick(rng, unseen).format(kind=kind), notes)
    answer = f"Dear {to},\n\n{body.format(**drawn)}\n\nBest regards,\n{sender}"
    return Example("letters-from-notes", prompt, answer, {"fields": drawn, "prompt": prompt})


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer greets, states every field, is signed, and invents no number."""
    answer, fields = answer[:LONGEST].strip(), example.facts["fields"]
    lines = [line.strip() for line in answer.splitlines() if line.strip()]
    if len(lines) < 3 or lines[0] != f"Dear {fields['to']}," or lines[-1] != fields["from"]:
        return False
    said = " ".join(lines[1:-1])
    told = [str(value) for field, value in fields.items() if field not in ("to", "from")]
    invented = set(re.findall(r"\d+", answer)) - set(re.findall(r"\d+", example.facts["prompt"]))
    return all(said.count(value) == 1 for value in told) and not invented and len(said.split()) <= 60


TASK = skill("letters-from-notes", "Letters from notes", make, grade)
