"""Dataclasses, dictionaries and test tables from a list of fields, graded by running them."""

import random

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import LONGEST, kinds, python, request, skill, texts, unfenced
from mars_demo.tasks.skills.material import is_inline, number, written
from mars_demo.tasks.skills.sandbox import evaluated
from mars_demo.tasks.skills.tables import in_group

TEXT = texts("records")
DATACLASS_ASKS, DICTIONARY_ASKS = kinds("records", "asks_dataclass"), kinds("records", "asks_dictionary")
TESTS_ASKS, CLASSES = kinds("records", "asks_tests"), kinds("records", "classes")
TYPES = {field: kind for kind, fields in TEXT["fields"].items() for field in fields}
DEFAULTS = {
    "str": lambda rng: f'"{rng.choice(TEXT["defaults"])}"',
    "int": number(0, 99),
    "float": lambda rng: f"{rng.randint(0, 9)}.{rng.randint(1, 9)}",
    "bool": lambda rng: rng.choice(("True", "False")),
}
SPOKEN_TYPES = {
    "str": ("text", "string"),
    "int": ("integer", "whole number"),
    "float": ("float", "decimal number"),
    "bool": ("boolean", "true or false"),
    "list[str]": ("list of strings", "list of str"),
}
# A field without a default and with one.
FIELD_STYLES = (
    ("{key} ({type})", "{key} ({type}, default {default})"),
    ("{key}: {type}", "{key}: {type} = {default}"),
    ("{key}: {type}", "{key}: {type}, default {default}"),
    ("{key} - {type}", "{key} - {type}, {default} by default"),
    ("{type} {key}", "{type} {key} = {default}"),
    ("{key} as {type}", "{key} as {type} (default: {default})"),
)
ENTRY_STYLES = ("{}: {}", "{}: {}", "{} = {}", "{} - {}", "{} -> {}", "{}\t{}")
# The generator of the values of a dictionary.
VALUES = {
    "int": number(1, 99),
    "float": lambda rng: f"{rng.randint(0, 29)}.{rng.choice(('20', '50', '75', '99'))}",
    "city": words.one_of(words.CITIES),
    "name": words.one_of(words.FIRST_NAMES),
    "day": words.one_of(words.DAYS),
    "product": words.one_of(words.PRODUCTS),
    "email": words.email,
    **{kind: in_group(f"{kind}s") for kind in ("color", "sport", "language", "job", "animal")},
}
FUNCTIONS = {
    "reverse": lambda word: word[::-1],
    "shout": lambda word: word.upper() + "!",
    "length": len,
    "first_letter": lambda word: word[0],
    "last_letter": lambda word: word[-1],
    "double": lambda word: word * 2,
    "title": str.title,
    "without_vowels": lambda word: "".join(letter for letter in word if letter not in "aeiou"),
    "count_e": lambda word: word.count("e"),
    "initial": lambda word: word[0].upper() + ".",
    "dashed": lambda word: "-".join(word),
    "square": lambda n: n * n,
    "half": lambda n: n / 2,
    "negate": lambda n: -n,
    "is_even": lambda n: n % 2 == 0,
    "add_ten": lambda n: n + 10,
}
NUMERIC = ("square", "half", "negate", "is_even", "add_ten")
TEST_STYLES = ("{} -> {}", "{} gives {}", "{}: {}", "{} => {}", "{} becomes {}", "{} should be {}")


def make(rng: random.Random, unseen: bool) -> Example:
    return rng.choice((_dataclass, _dictionary, _tests))(rng, unseen)


def _dataclass(rng: random.Random, unseen: bool) -> Example:
    name, phrasing = CLASSES.pick(rng, unseen), DATACLASS_ASKS.pick(rng, unseen)
    types = {key: TYPES[key] for key in rng.sample(list(TYPES), rng.randint(2, 5))}
    if rng.random() < 0.2:  # so that types are copied rather than guessed
        types = {key: rng.choice(list(DEFAULTS)) for key in types}
    keys = sorted(types, key=lambda key: types[key] in DEFAULTS)  # lists first: they have no default
    first_default = rng.choice((len(keys), len(keys), rng.randint(1, len(keys) - 1)))
    defaults = {key: DEFAULTS[types[key]](rng) for key in keys[first_default:] if types[key] in DEFAULTS}
    spoken = {kind: rng.choice(calls) for kind, calls in SPOKEN_TYPES.items()} if rng.random() < 0.3 else {}
    shown = {key: default.strip('"') if spoken else default for key, default in defaults.items()}
    styles = rng.choice(FIELD_STYLES)
    notes = [
        styles[key in defaults].format(key=key, type=spoken.get(kind, kind), default=shown.get(key))
        for key, kind in ((key, types[key]) for key in keys)
    ]
    lines = [
        f"    {key}: {types[key]}" + (f" = {defaults[key]}" if key in defaults else "") for key in keys
    ]
    code = "\n".join(["from dataclasses import dataclass", "", "", "@dataclass", f"class {name}:", *lines])
    separator = "; " if any(", " in note for note in notes) else ", "
    material = written(rng, notes, is_inline(phrasing), (separator,))
    return _example(request(rng, phrasing, material, name=name), code, name)


def _dictionary(rng: random.Random, unseen: bool) -> Example:
    phrasing, (name, group, kind) = DICTIONARY_ASKS.pick(rng, unseen), rng.choice(TEXT["dictionaries"])
    keys = rng.sample(words.GROUPS[group].split(), rng.randint(3, 6))
    values = {key: VALUES[kind](rng) for key in keys}
    is_number = kind in ("int", "float")
    style = rng.choice((*ENTRY_STYLES, "{} {}") if is_number else ENTRY_STYLES)
    notes = [style.format(key, value) for key, value in values.items()]
    lines = [f'    "{key}": {value if is_number else _literal(value)},' for key, value in values.items()]
    material = written(rng, notes, is_inline(phrasing), (", ", "; "))
    code = "\n".join([f"{name} = {{", *lines, "}"])
    return _example(request(rng, phrasing, material, name=name), code, name)


def _tests(rng: random.Random, unseen: bool) -> Example:
    phrasing, cases = TESTS_ASKS.pick(rng, unseen), rng.choice(TEXT["lists"])
    name = rng.choice(list(FUNCTIONS))
    inputs = range(2, 50) if name in NUMERIC else words.GROUPS["groceries"].split()
    pairs = [(value, FUNCTIONS[name](value)) for value in rng.sample(inputs, rng.randint(3, 5))]
    code = [(_literal(value), _literal(expected)) for value, expected in pairs]
    style = rng.choice((*TEST_STYLES, f"{name}({{}}) == {{}}", f"{name}({{}}) returns {{}}"))
    shown = code if name in style or rng.random() < 0.3 else pairs
    material = written(rng, [style.format(*pair) for pair in shown], is_inline(phrasing), (", ", "; "))
    prompt = request(rng, phrasing, material, name=name, cases=cases)
    lines = [f"    ({value}, {expected})," for value, expected in code]
    return _example(prompt, "\n".join([f"{cases} = [", *lines, "]"]), cases)


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _example(prompt: str, code: str, name: str) -> Example:
    return Example("records", prompt, python(code), {"code": code, "name": name})


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer, when run, defines the same value as the right code."""
    right = evaluated(example.facts["code"], example.facts["name"])
    return right is not None and evaluated(unfenced(answer[:LONGEST]), example.facts["name"]) == right


TASK = skill("records", "Dataclasses, dictionaries, tests", make, grade)
