"""Dataclasses, dictionaries and test tables from a list of fields, graded by the values they define."""

import ast
import random

from mars_demo.tasks.common import Example, same
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import is_inline, python, request, skill, texts, unfenced, written

TEXT = texts("records")  # `field_styles` are the forms of a field without a default and with one
TYPES = {field: kind for kind, fields in TEXT.fields.items() for field in fields}
DEFAULTS = words.drawings(TEXT.defaults)
ENTRY_STYLES = ("{}: {}", "{}: {}", "{} = {}", "{} - {}", "{} -> {}", "{}\t{}")
VALUES = words.drawings(TEXT.values)
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
    name, phrasing = TEXT.classes.pick(rng, unseen), TEXT.asks_dataclass.pick(rng, unseen)
    types = {key: TYPES[key] for key in rng.sample(list(TYPES), rng.randint(2, 5))}
    if rng.random() < 0.2:  # so that types are copied rather than guessed
        types = {key: rng.choice(list(DEFAULTS)) for key in types}
    keys = sorted(types, key=lambda key: types[key] in DEFAULTS)  # lists first: they have no default
    first_default = rng.choice((len(keys), len(keys), rng.randint(1, len(keys) - 1)))
    defaults = {key: DEFAULTS[types[key]](rng) for key in keys[first_default:] if types[key] in DEFAULTS}
    spoken = {kind: rng.choice(calls) for kind, calls in TEXT.spoken.items()} if rng.random() < 0.3 else {}
    shown = {key: default.strip('"') if spoken else default for key, default in defaults.items()}
    styles = rng.choice(TEXT.field_styles)
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
    phrasing, (name, group, kind) = TEXT.asks_dictionary.pick(rng, unseen), rng.choice(TEXT.dictionaries)
    keys = rng.sample(words.GROUPS[group], rng.randint(3, 6))
    values = {key: VALUES[kind](rng) for key in keys}
    is_number = kind in ("int", "float")
    style = rng.choice((*ENTRY_STYLES, "{} {}") if is_number else ENTRY_STYLES)
    notes = [style.format(key, value) for key, value in values.items()]
    lines = [f'    "{key}": {value if is_number else _literal(value)},' for key, value in values.items()]
    material = written(rng, notes, is_inline(phrasing), (", ", "; "))
    code = "\n".join([f"{name} = {{", *lines, "}"])
    return _example(request(rng, phrasing, material, name=name), code, name)


def _tests(rng: random.Random, unseen: bool) -> Example:
    phrasing, cases = TEXT.asks_tests.pick(rng, unseen), rng.choice(TEXT.lists)
    name = rng.choice(list(FUNCTIONS))
    inputs = range(2, 50) if name in NUMERIC else words.GROUPS["groceries"]
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
    return Example("records", prompt, python(code), {"name": name})


def _defined(answer: str, name: str) -> str | None:
    """Return what the code of an answer assigns to a name, or the fields of its dataclass, as text.

    Return None if the code has anything but imports from `dataclasses` and `typing`, literals and
    dataclasses.
    """
    imported, defined = set(), {}
    for node in ast.parse(unfenced(answer)).body:
        match node:
            case ast.ImportFrom(module="dataclasses" | "typing", names=names):
                imported |= {alias.asname or alias.name for alias in names}
            case ast.Assign(targets=[ast.Name(id=target)]) | ast.AnnAssign(target=ast.Name(id=target)):
                defined[target] = _literal_in(node.value)
            case ast.ClassDef(name=target, bases=[], keywords=[], decorator_list=[decorator]):
                is_dataclass = ast.unparse(decorator).startswith("dataclass") and "dataclass" in imported
                defined[target] = _fields(node) if is_dataclass else None
            case _:
                return None
    return defined.get(name)


def _fields(node: ast.ClassDef) -> str | None:
    """Return the names, types and defaults of a dataclass as text, or None if it has other members."""
    fields = []
    for member in node.body:
        match member:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                fields.append((name, ast.unparse(annotation), value and _literal_in(value)))
            case ast.Expr(value=ast.Constant()):
                pass
            case _:
                return None
    return repr(fields)


def _literal_in(node: ast.expr | None) -> str | None:
    """Return a literal as text, or None for any other expression."""
    try:
        return repr(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


TASK = skill("records", "Dataclasses, dictionaries, tests", make, same(_defined, "name"))
