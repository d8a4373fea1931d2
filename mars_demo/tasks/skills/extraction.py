"""Extracting fields of an email, an order, an event or another document as JSON."""

import json
import random
import re

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import LONGEST, Kinds, and_list, kinds, request, skill, texts, unfenced
from mars_demo.tasks.skills.material import day, flat, is_inline, literal, money, number, written

TEXT = texts("extraction")
ASKS, DOCUMENTS = kinds("extraction"), kinds("extraction", "documents")
FOLLOW_UPS = {change: Kinds(**phrasings) for change, phrasings in TEXT["follow_ups"].items()}


def _gate(rng: random.Random) -> str:
    """Return a gate or a seat."""
    return rng.choice(("{letter}{n}", "{n}{letter}")).format(
        letter=rng.choice("ABCDEF"), n=rng.randint(1, 39)
    )


_JOBS = [job for job in words.GROUPS["jobs"].split() if job[0] not in "aeiou"]  # with the article "a"

# The generator of each field of a document.
FIELDS = {
    **dict.fromkeys(("order_id", "reference", "tracking", "invoice"), words.code),
    **dict.fromkeys(
        ("customer", "sender", "host", "guest", "recipient", "landlord", "patient", "passenger", "chair"),
        words.person,
    ),
    **dict.fromkeys(("name", "owner", "teacher", "technician"), words.person),
    **dict.fromkeys(("date", "order_date", "deadline", "arrival", "arrives", "start"), day),
    **dict.fromkeys(("available", "due", "visit"), day),
    **dict.fromkeys(("city", "depot", "origin", "destination"), words.one_of(words.CITIES)),
    **dict.fromkeys(("price", "fee"), money),
    **dict.fromkeys(("company", "supplier"), words.one_of(words.COMPANIES)),
    **dict.fromkeys(("email", "contact"), words.email),
    **dict.fromkeys(("subject", "topic"), words.one_of(TEXT["subjects"])),
    **dict.fromkeys(("time", "departure"), words.clock),
    **dict.fromkeys(("position", "job"), words.one_of(_JOBS)),
    **dict.fromkeys(("gate", "seat"), _gate),
    "item": words.one_of(words.PRODUCTS),
    "phone": lambda rng: f"555-{rng.randint(100, 999)}-{rng.randint(1000, 9999)}",
    "title": words.one_of(TEXT["titles"]),
    "hotel": words.one_of(TEXT["hotels"]),
    "course": words.one_of(TEXT["courses"]),
    "reason": words.one_of(TEXT["reasons"]),
    "fault": words.one_of(TEXT["faults"]),
    "hobby": words.one_of(words.GROUPS["sports"].split()),
    "weekday": words.one_of(words.DAYS),
    "place": words.address,
    "street": lambda rng: f"{rng.choice(words.STREETS)} Street",
    "doctor": lambda rng: f"Dr. {words.person(rng)}",
    "flight": lambda rng: f"{rng.choice('ABDKLNUW')}{rng.choice('ABFHLRY')} {rng.randint(100, 2999)}",
    "quantity": number(2, 40),
    "seats": number(12, 300),
    "nights": number(2, 14),
    "room": number(101, 560),
    "weight_kg": number(2, 30),
    "salary": number(24000, 90000, 500),
    "hours": number(10, 40),
    "rooms": number(2, 6),
    "rent": number(450, 2400, 10),
    "size": number(28, 140),
    "people": number(3, 25),
    "reward": number(10, 200, 5),
    "places": number(6, 24),
}


def _camel(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(part.capitalize() for part in rest)


# How a visitor spells all keys of a request, and the marks around a key.
SPELLINGS = (
    *((str,) * 4),
    *((lambda key: key.replace("_", " "),) * 3),
    lambda key: key.replace("_", " ").capitalize(),
    _camel,
)
MARKS = (*("{}",) * 5, '"{}"', "`{}`", "'{}'")
NOTES = ("{}: {}", "{}: {}", "{} = {}", "{} - {}", "{}:\t{}")


def make(rng: random.Random, unseen: bool) -> Example:
    what, phrasing = DOCUMENTS.pick(rng, unseen), ASKS.pick(rng, unseen)
    fields = list(TEXT["sentences"][what])
    stated = rng.sample(fields, rng.randint(3, min(6, len(fields))))
    values = {field: FIELDS[field](rng) for field in stated}
    spell, mark = rng.choice(SPELLINGS), rng.choice(MARKS)
    keys = {field: spell(rng.choice(TEXT["keys"][field])) for field in stated}
    requested = rng.sample(stated, rng.randint(2, min(5, len(stated))))
    names = [mark.format(keys[field]) for field in requested]
    prompt = request(
        rng,
        phrasing,
        _document(rng, what, values, is_inline(phrasing)),
        what=what,
        keys=and_list(names),
        fields=", ".join(names),
        template="{" + ", ".join(f'"{keys[field]}": ...' for field in requested) + "}",
    )
    facts = {
        "fields": {keys[field]: values[field] for field in requested},
        "others": {keys[field]: values[field] for field in stated if field not in requested},
        "sources": {key: field for field, key in keys.items()},
    }
    return Example("extraction", prompt, written_json(facts["fields"]), facts)


def _document(rng: random.Random, what: str, values: dict[str, str], inline: bool) -> str:
    """Return a text that states values, as labeled notes, as sentences, or as notes and then sentences."""
    fields = list(values)
    count = rng.choice((0, 0, 0, len(fields), len(fields), 0 if inline else rng.randint(1, len(fields))))
    style = rng.choice(NOTES)
    notes = [style.format(rng.choice(TEXT["labels"][field]), values[field]) for field in fields[:count]]
    sentences = [
        rng.choice(TEXT["sentences"][what][field]).format(values[field]) for field in fields[count:]
    ]
    for filler in rng.sample(TEXT["fillers"], rng.choice((0, 0, 1, 2)) if sentences else 0):
        sentences.insert(rng.randint(0, len(sentences)), filler)
    prose = (" " if inline else rng.choice((" ", " ", "\n"))).join(sentences)
    separators = ("; ", " | ", " / ")
    return "\n\n".join(part for part in (notes and written(rng, notes, inline, separators), prose) if part)


def written_json(fields: dict[str, str]) -> str:
    """Return an indented JSON object."""
    lines = [f"  {json.dumps(key)}: {literal(value)}" for key, value in fields.items()]
    return "{\n" + ",\n".join(lines) + "\n}"


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example | None:
    """Return a request to change, add or remove a field."""
    fields, others = dict(example.facts["fields"]), dict(example.facts["others"])
    change = rng.choice(("change", "change", *["add"] * 2 * bool(others), *["remove"] * (len(fields) > 2)))
    key, old, value = rng.choice(list(others if change == "add" else fields)), "", ""
    if change == "add":
        fields[key] = others.pop(key)
    elif change == "remove":
        others[key] = fields.pop(key)
    else:
        old, value = fields[key], FIELDS[example.facts["sources"][key]](rng)
        if value == old or list(fields.values()).count(old) > 1:
            return None
        fields[key] = value
    prompt = request(rng, FOLLOW_UPS[change].pick(rng, unseen), key=key, old=old, value=value)
    facts = example.facts | {"fields": fields, "others": others}
    return Example("extraction", prompt, written_json(fields), facts)


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer is a JSON object with exactly these fields.

    Keys may be spelled with spaces, underscores or capitals, and amounts may lack their currency.
    """
    try:
        fields = flat(unfenced(answer[:LONGEST]))
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and _comparable(fields) == _comparable(example.facts["fields"])


def _comparable(fields: dict[str, object]) -> dict[str, str]:
    """Return fields with keys in snake case and values without a currency."""
    return {
        re.sub(r"(?<=[a-z])(?=[A-Z])|[ -]", "_", key).lower(): re.sub(r"^[$€£] ?(?=\d)", "", str(value))
        for key, value in fields.items()
    }


TASK = skill("extraction", "Fields as JSON", make, grade, follow_up=follow_up)
