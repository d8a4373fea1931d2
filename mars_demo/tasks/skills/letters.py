"""Short letters, invitations and reminders from a list of fields."""

import datetime
import itertools
import random
import re

from mars_demo.tasks.common import Example, stripped_lines
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import new_numbers, request, skill, texts

TEXT = texts("letters-from-notes")


def _date(rng: random.Random) -> str:
    form = rng.choice(TEXT.dates)
    return words.dated(words.date(rng), form)


def _time(rng: random.Random) -> str:
    return rng.choice((words.clock(rng), f"{rng.randint(8, 11)} am", f"{rng.randint(1, 9)} pm"))


FIELDS = words.drawings(TEXT.fields, **{"styled date": _date, "time": _time})


def make(rng: random.Random, unseen: bool) -> Example:
    letter = TEXT.letters.pick(rng, unseen)
    fields = _drawn(rng, ["to", "from", *letter["fields"]])
    pattern, separator = TEXT.layouts.pick(rng, unseen)
    order = rng.sample(list(fields), len(fields))
    case = rng.choice((str, str, str.capitalize, str.upper))
    notes = separator.join(pattern.format(case(key), fields[field]) for field, key in _keys(rng, order))
    noun = letter["kind"].split(" ", 1)[1]
    phrasing = TEXT.asks.pick(rng, unseen)
    if noun[0] in "aeiou":
        phrasing = re.sub(r"\b([Aa]) \{noun\}", r"\1n {noun}", phrasing)
    prompt = request(rng, phrasing, notes, kind=letter["kind"], noun=noun)
    return _letter(prompt, prompt, letter["body"], fields)


def _drawn(rng: random.Random, names: list[str]) -> dict[str, str]:
    """Return a value for each field; no value is part of another."""
    while True:
        fields = {name: FIELDS[name](rng) for name in names}
        if {"first day", "last day"} <= set(names):
            form, first = rng.choice(TEXT.dates), words.date(rng)
            fields["first day"] = words.dated(first, form)
            fields["last day"] = words.dated(first + datetime.timedelta(days=rng.randint(2, 30)), form)
        if not any(value in other for value, other in itertools.permutations(fields.values(), 2)):
            return fields


def _keys(rng: random.Random, fields: list[str]) -> list[tuple[str, str]]:
    """Return each field with the key that the notes have for it, all keys different."""
    while True:
        keys = [rng.choice(TEXT.synonyms[field]) for field in fields]
        if len(set(keys)) == len(keys):
            return list(zip(fields, keys))


def _letter(prompt: str, source: str, body: str, fields: dict[str, str]) -> Example:
    answer = f"Dear {fields['to']},\n\n{body.format(**fields)}\n\nBest regards,\n{fields['from']}"
    return Example("letters-from-notes", prompt, answer, {"fields": fields, "prompt": source, "body": body})


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example:
    """Return a request to change one field."""
    fields = example.facts["fields"]
    field = rng.choice(list(fields))
    new = FIELDS[field](rng)
    while new in example.prompt:
        new = FIELDS[field](rng)
    name = rng.choice(TEXT.names.get(field, [field]))
    prompt = request(rng, TEXT.follow_ups.pick(rng, unseen), field=name, new=new)
    source = f"{example.facts['prompt']}\n{prompt}"
    return _letter(prompt, source, example.facts["body"], fields | {field: new})


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer has greeting, every field once and signature, and invents no number."""
    lines, fields = stripped_lines(answer), example.facts["fields"]
    if len(lines) < 3 or lines[0] != f"Dear {fields['to']}," or lines[-1] != fields["from"]:
        return False
    body = " ".join(lines[1:-1])
    values = [re.escape(value) for field, value in fields.items() if field not in ("to", "from")]
    invented = new_numbers(answer, example.facts["prompt"])
    each_once = all(len(re.findall(rf"(?<!\w){value}(?!\w)", body)) == 1 for value in values)
    return each_once and not invented and len(body.split()) <= 60


TASK = skill("letters-from-notes", "Letters from notes", make, grade, follow_up)
