"""Extracting fields of an email, an order, an event or another document as JSON."""

import json
import random
import re

from mars_demo.tasks.common import Example, same
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import and_list, is_inline, request, skill, texts, written
from mars_demo.tasks.skills.tables import literal, parsed

TEXT = texts("extraction")


def _gate(rng: random.Random) -> str:
    form = rng.choice(("{letter}{n}", "{n}{letter}"))
    return form.format(letter=rng.choice("ABCDEF"), n=rng.randint(1, 39))


FIELDS = words.drawings(TEXT.fields, gate=_gate)
# How a visitor spells all keys of a request, and the marks around a key.
SPELLINGS = (
    *((str,) * 4),
    *((lambda key: key.replace("_", " "),) * 3),
    lambda key: key.replace("_", " ").capitalize(),
    lambda key: re.sub(r"_(\w)", lambda initial: initial[1].upper(), key),
)
MARKS = (*("{}",) * 5, '"{}"', "`{}`", "'{}'")
NOTES = ("{}: {}", "{}: {}", "{} = {}", "{} - {}", "{}:\t{}")


def make(rng: random.Random, unseen: bool) -> Example:
    what, phrasing = TEXT.documents.pick(rng, unseen), TEXT.asks.pick(rng, unseen)
    fields = list(TEXT.sentences[what])
    stated = rng.sample(fields, rng.randint(3, min(6, len(fields))))
    values = {field: FIELDS[field](rng) for field in stated}
    spell, mark = rng.choice(SPELLINGS), rng.choice(MARKS)
    keys = {field: spell(rng.choice(TEXT.keys[field])) for field in stated}
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
    return Example("extraction", prompt, _written_json(facts["fields"]), facts)


def _document(rng: random.Random, what: str, values: dict[str, str], inline: bool) -> str:
    """Return a text that states values, as labeled notes, as sentences, or as notes and then sentences."""
    fields = list(values)
    count = rng.choice((0, 0, 0, len(fields), len(fields), 0 if inline else rng.randint(1, len(fields))))
    style = rng.choice(NOTES)
    notes = [style.format(rng.choice(TEXT.labels[field]), values[field]) for field in fields[:count]]
    sentences = [rng.choice(TEXT.sentences[what][field]).format(values[field]) for field in fields[count:]]
    for filler in rng.sample(TEXT.fillers, rng.choice((0, 0, 1, 2)) if sentences else 0):
        sentences.insert(rng.randint(0, len(sentences)), filler)
    prose = (" " if inline else rng.choice((" ", " ", "\n"))).join(sentences)
    separators = ("; ", " | ", " / ")
    return "\n\n".join(part for part in (notes and written(rng, notes, inline, separators), prose) if part)


def _written_json(fields: dict[str, str]) -> str:
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
    prompt = request(rng, TEXT.follow_ups[change].pick(rng, unseen), key=key, old=old, value=value)
    facts = example.facts | {"fields": fields, "others": others}
    return Example("extraction", prompt, _written_json(fields), facts)


def _fields(answer: str) -> dict[str, str]:
    """Return the fields of a JSON object with keys in snake case and values without a currency.

    Raises:
        ValueError: if the answer is no JSON object.
    """
    fields = parsed(answer)
    if not isinstance(fields, dict):
        raise ValueError("no object")
    return {
        re.sub(r"(?<=[a-z])(?=[A-Z])|[ -]", "_", key).lower(): re.sub(r"^[$€£] ?(?=\d)", "", str(value))
        for key, value in fields.items()
    }


TASK = skill("extraction", "Fields as JSON", make, same(_fields), follow_up)
