"""Dataclasses, dictionaries and test tables from a list of fields, graded by running them."""

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import LONGEST, kinds, python, request, skill, texts, unfenced
from mars_demo.tasks.skills.sandbox import evaluated

DATACLASS_ASKS, DICTIONARY_ASKS = kinds("records", "dataclass"), kinds("records", "dictionary")
TESTS_ASKS = kinds("records", "tests")
CLASSES, FIELDS = kinds("records", "classes"), texts("records")["fields"].split()
TYPES = {
    "str": lambda rng: repr(rng.choice(("unknown", "none", "new", "open", "red"))).replace("'", '"'),
    "int": lambda rng: str(rng.randint(0, 99)),
    "float": lambda rng: f"{rng.randint(0, 9)}.{rng.randint(1, 9)}",
    "bool": lambda rng: rng.choice(("True", "False")),
}
FUNCTIONS = {
    "reverse": lambda word: word[::-1],
    "shout": lambda word: word.upper() + "!",
    "length": len,
    "first_letter": lambda word: word[0],
    "double": lambda word: word * 2,
    "title": str.title,
}


def make(rng: random.Random, unseen: bool) -> Example:
    return rng.choice((_dataclass, _dictionary, _tests))(rng, unseen)


def _dataclass(rng: random.Random, unseen: bool) -> Example:
    name, keys = CLASSES.pick(rng, unseen), rng.sample(FIELDS, rng.randint(2, 5))
    types = {key: rng.choice(list(TYPES)) for key in keys}
    first_default = rng.choice((len(keys), len(keys), rng.randint(1, len(keys) - 1)))
    defaults = {key: TYPES[types[key]](rng) for key in keys[first_default:]}
    style = rng.choice(("{key} ({type}{default})", "- {key}: {type}{default}", "{key}, {type}{default}"))
    notes = "\n".join(
        style.format(
            key=key, type=types[key], default=f", default {defaults[key]}" if key in defaults else ""
        )
        for key in keys
    )
    lines = [
        f"    {key}: {types[key]}" + (f" = {defaults[key]}" if key in defaults else "") for key in keys
    ]
    code = "\n".join(["from dataclasses import dataclass", "", "", "@dataclass", f"class {name}:", *lines])
    prompt = request(rng, DATACLASS_ASKS.pick(rng, unseen), notes, name=name)
    return Example("records", prompt, python(code), {"code": code, "name": name})


def _dictionary(rng: random.Random, unseen: bool) -> Example:
    name, numbers = rng.choice(("stock", "prices", "ages", "scores", "points")), rng.random() < 0.7
    keys = rng.sample(
        words.GROUPS[rng.choice(("fruits", "tools", "names", "cities"))].split(), rng.randint(3, 6)
    )
    values = {key: rng.randint(1, 99) if numbers else rng.choice(words.PRODUCTS) for key in keys}
    style = rng.choice(("{}: {}", "{} = {}", "{} - {}"))
    notes = "\n".join(style.format(key, value) for key, value in values.items())
    lines = [f'    "{key}": {_literal(value)},' for key, value in values.items()]
    code = "\n".join([f"{name} = {{", *lines, "}"])
    prompt = request(rng, DICTIONARY_ASKS.pick(rng, unseen), notes, name=name)
    return Example("records", prompt, python(code), {"code": code, "name": name})


def _tests(rng: random.Random, unseen: bool) -> Example:
    name = rng.choice(list(FUNCTIONS))
    inputs = rng.sample([word.lower() for word in words.GROUPS["groceries"].split()], rng.randint(3, 5))
    pairs = [(word, FUNCTIONS[name](word)) for word in inputs]
    style = rng.choice(("{} -> {}", "{} gives {}", "{}: {}"))
    notes = "\n".join(style.format(*pair) for pair in pairs)
    lines = [f"    ({_literal(given)}, {_literal(expected)})," for given, expected in pairs]
    code = "\n".join(["CASES = [", *lines, "]"])
    prompt = request(rng, TESTS_ASKS.pick(rng, unseen), notes, name=name)
    return Example("records", prompt, python(code), {"code": code, "name": "CASES"})


def _literal(value: str | int) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer, when run, defines the same value as the right code."""
    right = evaluated(example.facts["code"], example.facts["name"])
    return right is not None and evaluated(unfenced(answer[:LONGEST]), example.facts["name"]) == right


TASK = skill("records", "Dataclasses, dictionaries, tests", make, grade)
