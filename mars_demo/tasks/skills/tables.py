"""Converting tables between CSV, Markdown and JSON."""

import csv
import json
import random
from collections.abc import Callable

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import kinds, lines_of, request, skill, unfenced
from mars_demo.tasks.skills.material import flat, literal

Table = list[list[str]]  # the header is the first row


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


def _read_csv(text: str) -> Table:
    return [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if row]


def _read_markdown(text: str) -> Table:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines_of(text)]
    if len(rows) < 2 or any(set(cell) - set(":- ") or "-" not in cell for cell in rows[1]):
        raise ValueError("no line under the header")
    return [rows[0], *rows[2:]]


def _read_json(text: str) -> Table:
    rows = flat(text)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ValueError("no list of objects")
    if any(row.keys() != rows[0].keys() for row in rows):
        raise ValueError("objects with other keys")
    header = list(rows[0])
    return [header, *([str(row[key]) for key in header] for row in rows)]


# The writer and the reader of each format of an answer.
FORMATS: dict[str, tuple[Callable[[Table], str], Callable[[str], Table]]] = {
    "CSV": (_separated(","), _read_csv),
    "Markdown": (_markdown, _read_markdown),
    "JSON": (_json, _read_json),
}
# The writers of each format of a request.
SOURCES = {
    "CSV": (_separated(","), _separated(","), _separated(";"), _separated(", ")),
    "TSV": (_separated("\t"),),
    "Markdown": (_markdown, _aligned),
    "JSON": (_json, _json_line),
}

ASKS, COLUMNS = kinds("table-formats"), kinds("table-formats", "columns")


def make(rng: random.Random, unseen: bool) -> Example:
    source, target = rng.choice(list(SOURCES)), rng.choice(list(FORMATS))
    while source == target:
        target = rng.choice(list(FORMATS))
    columns = COLUMNS.pick(rng, unseen)
    header = rng.sample(list(columns), rng.randint(2, len(columns)))
    draws = [words.drawing(columns[name]) for name in header]
    spell = rng.choice((str, str, str, str.capitalize))
    cells = 9 if target == "JSON" else 14
    count = rng.randint(2, max(2, min(6, cells // len(header))))
    # No commas inside of cells: a reader of CSV would split there.
    rows = [[draw(rng).replace(",", "") for draw in draws] for _ in range(count)]
    table = [[spell(name) for name in header], *rows]
    material = rng.choice(SOURCES[source])(table)
    called = rng.choice((str, str, str, str.lower))
    prompt = request(rng, ASKS.pick(rng, unseen), material, source=called(source), target=called(target))
    return Example("table-formats", prompt, FORMATS[target][0](table), {"format": target, "table": table})


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer, parsed in its format, is the same table."""
    try:
        table = FORMATS[example.facts["format"]][1](unfenced(answer))
    except (ValueError, RecursionError, csv.Error):
        return False
    return table == example.facts["table"]


TASK = skill("table-formats", "Tables in another format", make, grade)
