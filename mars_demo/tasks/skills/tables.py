"""Converting tables between CSV, Markdown and JSON."""

import csv
import json
import random
import re
from collections.abc import Callable

from mars_demo.tasks.common import Example, same
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import lines_of, request, skill, texts, unfenced

Table = list[list[str]]  # the header is the first row
NUMBER = re.compile(r"(0|[1-9]\d*)(\.\d+)?")


def literal(value: str) -> str:
    """Return a value as JSON: digits as a number with the same digits, all else as a string."""
    return value if NUMBER.fullmatch(value) else json.dumps(value, ensure_ascii=False)


def parsed(answer: str) -> dict | list:
    """Return the JSON of an answer, with its numbers as strings of the same digits.

    Raises:
        ValueError: if it is not JSON.
        RecursionError: if it is nested too deeply.
    """
    return json.loads(unfenced(answer), parse_float=str, parse_int=str)


def _separated(separator: str) -> Callable[[Table], str]:
    return lambda table: "\n".join(separator.join(row) for row in table)


def _markdown(table: Table) -> str:
    rows = [f"| {' | '.join(row)} |" for row in table]
    return "\n".join([rows[0], f"|{' --- |' * len(table[0])}", *rows[1:]])


def _aligned(table: Table) -> str:
    """Return a Markdown table with columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*table)]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths)] for row in table]
    rows = [f"| {' | '.join(row)} |" for row in padded]
    return "\n".join([rows[0], f"|{'|'.join('-' * (width + 2) for width in widths)}|", *rows[1:]])


def _objects(table: Table) -> list[str]:
    header = [json.dumps(name) for name in table[0]]
    rows = [", ".join(f"{name}: {literal(cell)}" for name, cell in zip(header, row)) for row in table[1:]]
    return [f"{{{row}}}" for row in rows]


def _json(table: Table) -> str:
    return "[\n  " + ",\n  ".join(_objects(table)) + "\n]"


def _json_line(table: Table) -> str:
    return f"[{', '.join(_objects(table))}]"


def _read_csv(answer: str) -> Table:
    return [[cell.strip() for cell in row] for row in csv.reader(unfenced(answer).splitlines()) if row]


def _read_markdown(answer: str) -> Table:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines_of(answer)]
    if len(rows) < 2 or any(set(cell) - set(":- ") or "-" not in cell for cell in rows[1]):
        raise ValueError("no line under the header")
    return [rows[0], *rows[2:]]


def _read_json(answer: str) -> Table:
    rows = parsed(answer)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ValueError("no list of objects")
    if any(row.keys() != rows[0].keys() for row in rows):
        raise ValueError("objects with other keys")
    header = list(rows[0])
    return [header, *([str(row[key]) for key in header] for row in rows)]


# The readers of each format of an answer; they raise ValueError for other texts.
READERS = {"CSV": _read_csv, "Markdown": _read_markdown, "JSON": _read_json}
# The writers of each format; an answer has the first one.
WRITERS = {
    "CSV": (_separated(","), _separated(","), _separated(";"), _separated(", ")),
    "TSV": (_separated("\t"),),
    "Markdown": (_markdown, _aligned),
    "JSON": (_json, _json_line),
}

TEXT = texts("table-formats")


def make(rng: random.Random, unseen: bool) -> Example:
    source, target = rng.choice(list(WRITERS)), rng.choice(list(READERS))
    while source == target:
        target = rng.choice(list(READERS))
    columns = TEXT.columns.pick(rng, unseen)
    header = rng.sample(list(columns), rng.randint(2, len(columns)))
    draws = [words.drawing(columns[name]) for name in header]
    spell = rng.choice((str, str, str, str.capitalize))
    cells = 9 if target == "JSON" else 14
    count = rng.randint(2, max(2, min(6, cells // len(header))))
    # No commas inside of cells: a reader of CSV would split there.
    rows = [[draw(rng).replace(",", "") for draw in draws] for _ in range(count)]
    table = [[spell(name) for name in header], *rows]
    material = rng.choice(WRITERS[source])(table)
    called = rng.choice((str, str, str, str.lower))
    prompt = request(
        rng, TEXT.asks.pick(rng, unseen), material, source=called(source), target=called(target)
    )
    return Example("table-formats", prompt, WRITERS[target][0](table), {"format": target})


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer, parsed in its format, is the same table."""
    return same(READERS[example.facts["format"]])(example, answer)


TASK = skill("table-formats", "Tables in another format", make, grade)
