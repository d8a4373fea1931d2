"""Extracting fields of an email, an order, an event or a booking as JSON."""

import json
import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import LONGEST, and_list, kinds, request, skill, texts, unfenced

TEXT = texts("extraction")
ASKS, DOCUMENTS = kinds("extraction"), kinds("extraction", "documents")


def _date(rng: random.Random) -> str:
    day = words.date(rng)
    return rng.choice((words.long_date(day), day.isoformat()))


# The generator of each field of a document.
FIELDS = {
    **dict.fromkeys(("order_id", "reference", "tracking"), words.code),
    **dict.fromkeys(("customer", "sender", "host", "guest", "recipient"), words.person),
    **dict.fromkeys(("date", "deadline", "arrival", "arrives"), _date),
    **dict.fromkeys(("city", "depot"), words.one_of(words.CITIES)),
    "item": words.one_of(words.PRODUCTS),
    "quantity": lambda rng: rng.randint(2, 40),
    "price": words.price,
    "company": words.one_of(words.COMPANIES),
    "email": words.email,
    "subject": words.one_of(TEXT["subjects"]),
    "phone": lambda rng: f"555-{rng.randint(100, 999)}-{rng.randint(1000, 9999)}",
    "title": words.one_of(TEXT["titles"]),
    "time": words.clock,
    "place": words.address,
    "seats": lambda rng: rng.randint(12, 300),
    "hotel": words.one_of(TEXT["hotels"]),
    "nights": lambda rng: rng.randint(2, 14),
    "room": lambda rng: rng.randint(101, 560),
    "weight_kg": lambda rng: rng.randint(2, 30),
}


def make(rng: random.Random, unseen: bool) -> Example:
    what = DOCUMENTS.pick(rng, unseen)
    sentences = TEXT["sentences"][what]
    stated = rng.sample(list(sentences), rng.randint(3, len(sentences)))
    values = {key: FIELDS[key](rng) for key in stated}
    text = " ".join(rng.choice(sentences[key]).format(values[key]) for key in stated)
    requested = rng.sample(stated, rng.randint(2, min(5, len(stated))))
    prompt = request(rng, ASKS.pick(rng, unseen), text, what=what, keys=and_list(requested))
    answer = {key: values[key] for key in requested}
    return Example("extraction", prompt, json.dumps(answer, indent=2), {"fields": answer})


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer is a JSON object with exactly these fields; numbers may be strings."""
    try:
        fields = json.loads(unfenced(answer[:LONGEST]))
    except (ValueError, RecursionError):
        return False
    right = example.facts["fields"]
    return isinstance(fields, dict) and {k: str(v) for k, v in fields.items()} == {
        k: str(v) for k, v in right.items()
    }


TASK = skill("extraction", "Fields as JSON", make, grade)
