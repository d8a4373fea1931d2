"""Tables converted between CSV, Markdown and JSON, and made of rows in informal notes."""

import csv
import json
import random
import re
from collections.abc import Callable

from mars_demo.tasks.common import Example, same
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import (
    and_list,
    is_inline,
    lines_of,
    request,
    skill,
    texts,
    unfenced,
    written,
)

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
    widths = [max(map(len, column)) for column in zip(*table)]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths)] for row in table]
    rows = [f"| {' | '.join(row)} |" for row in padded]
    return "\n".join([rows[0], f"|{'|'.join('-' * (width + 2) for width in widths)}|", *rows[1:]])


def _objects(table: Table) -> list[str]:
    header = [json.dumps(name) for name in table[0]]
    rows = [", ".join(f"{name}: {literal(cell)}" for name, cell in zip(header, row)) for row in table[1:]]
    return [f"{{{row}}}" for row in rows]


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
    "JSON": (
        lambda table: "[\n  " + ",\n  ".join(_objects(table)) + "\n]",
        lambda table: f"[{', '.join(_objects(table))}]",
    ),
}
FORMATS = texts("table-formats")
# `schemes` have names of each column, and forms of a row; the first column names the row.
NOTES = texts("rows")
ASKS = {"Markdown": NOTES.asks_table, "JSON": NOTES.asks_json}
COLUMNS = words.drawings(NOTES.columns)
SEPARATORS = (", ", " - ", " | ", "\t", " / ")  # between the cells of a row without words


def _count(rng: random.Random, target: str, columns: int, most: int) -> int:
    cells = 9 if target == "JSON" else 14
    return rng.randint(2, max(2, min(most, cells // columns)))


def _conversion(rng: random.Random, unseen: bool) -> Example:
    source, target = rng.choice(list(WRITERS)), rng.choice(list(READERS))
    while source == target:
        target = rng.choice(list(READERS))
    columns = FORMATS.columns.pick(rng, unseen)
    header = rng.sample(list(columns), rng.randint(2, len(columns)))
    draws = [words.drawing(columns[name]) for name in header]
    spell = rng.choice((str, str, str, str.capitalize))
    count = _count(rng, target, len(header), 6)
    # No commas inside of cells: a reader of CSV would split there.
    rows = [[draw(rng).replace(",", "") for draw in draws] for _ in range(count)]
    table = [[spell(name) for name in header], *rows]
    material = rng.choice(WRITERS[source])(table)
    called = rng.choice((str, str, str, str.lower))
    names = {"source": called(source), "target": called(target)}
    prompt = request(rng, FORMATS.asks.pick(rng, unseen), material, **names)
    return Example("table-formats", prompt, WRITERS[target][0](table), {"format": target})


def _table(answer: str, target: str) -> Table:
    return READERS[target](answer)


def _table_of_notes(rng: random.Random, unseen: bool) -> Example:
    target = rng.choice(list(ASKS))
    phrasing, scheme = ASKS[target].pick(rng, unseen), NOTES.schemes.pick(rng, unseen)
    spell = rng.choice((str, str, str.capitalize, lambda name: name.replace("_", " ")))
    names = {column: spell(rng.choice(calls)) for column, calls in scheme["columns"].items()}
    is_headed = not re.search("{(columns|fields|bars|template)}", phrasing)
    if is_headed or rng.random() < 0.3:
        form = rng.choice(SEPARATORS).join(f"{{{column}}}" for column in list(names)[: rng.randint(2, 3)])
        columns = words.fields_of(form)
    else:
        form = rng.choice(scheme["rows"])
        columns = words.fields_of(form)
        if rng.random() < 0.35:
            columns = rng.sample(columns, rng.randint(2, len(columns)))
    count = _count(rng, target, len(columns), 5)
    facts = {"format": target, "names": names, "columns": columns, "form": form, "key": list(names)[0]}
    facts["currency"] = rng.choice(("", "", "", "$", "€"))
    facts["rows"] = _rows(rng, facts, count)
    lines = [form.format(**row) for row in ([names] if is_headed else []) + facts["rows"]]
    header = [names[column] for column in columns]
    prompt = request(
        rng,
        phrasing,
        _material(rng, lines, is_headed, is_inline(phrasing)),
        columns=and_list(header),
        fields=", ".join(header),
        bars=" | ".join(header),
        template="{" + ", ".join(f'"{name}": ...' for name in header) + "}",
    )
    return _example(prompt, facts)


def _value(rng: random.Random, column: str, facts: dict) -> str:
    return (facts["currency"] if column in ("price", "amount") else "") + COLUMNS[column](rng)


def _rows(rng: random.Random, facts: dict, count: int) -> list[dict[str, str]]:
    """Return rows with different values of the key column, for the form of a row."""
    rows: dict[str, dict[str, str]] = {}
    while len(rows) < count:
        row = {column: _value(rng, column, facts) for column in words.fields_of(facts["form"])}
        rows[row.get(facts["key"], str(len(rows)))] = row
    return list(rows.values())


def _material(rng: random.Random, lines: list[str], is_headed: bool, inline: bool) -> str:
    """Return rows as sentences, or separated by a mark that does not occur in a row."""
    if is_headed and not inline:
        return "\n".join(lines)
    comma = ", " if not any("," in line for line in lines) else "; "
    return written(rng, lines, inline, (" ",) if lines[0].endswith(".") else (comma, "; "))


def _example(prompt: str, facts: dict) -> Example:
    table = [[row[column] for column in facts["columns"]] for row in (facts["names"], *facts["rows"])]
    return Example("rows", prompt, WRITERS[facts["format"]][0](table), facts)


def _changed(rng: random.Random, example: Example, unseen: bool) -> Example | None:
    """Return a request to change a value, to add or remove a row or a column, or for the other format."""
    facts = example.facts
    rows, columns, target, key = (facts[name] for name in ("rows", "columns", "format", "key"))
    change = rng.choice(("add", "remove", "change", "drop", "format"))
    row, column = rng.choice(rows), rng.choice(columns)
    cells, is_named = len(rows) * len(columns), key in columns
    details = {"name": row.get(key), "column": facts["names"][column]}
    if change == "format" and cells <= 9:
        change = target = "JSON" if target == "Markdown" else "Markdown"
    elif change == "add" and cells < 9:
        (new,) = _rows(rng, facts, 1)
        details["row"] = facts["form"].format(**new).rstrip(".").replace("\t", ", ")
        if is_named and any(other[key] == new[key] for other in rows):
            return None
        rows = [*rows, new]
    elif change == "drop" and len(columns) > 2 and column != key:
        columns = [other for other in columns if other != column]
    elif change == "remove" and len(rows) > 2 and is_named:
        rows = [other for other in rows if other is not row]
    elif change == "change" and is_named and column != key:
        details |= {"old": row[column], "value": _value(rng, column, facts)}
        if details["value"] == details["old"]:
            return None
        rows = [other | {column: details["value"]} if other is row else other for other in rows]
    else:
        return None
    prompt = request(rng, NOTES.follow_ups[change].pick(rng, unseen), **details)
    return _example(prompt, facts | {"format": target, "columns": columns, "rows": rows})


def _comparable(answer: str, target: str) -> Table:
    """Return the table of an answer with its header in lower case.

    Its cells have no currency and no measure, as in "loaves of bread".
    """
    header, *rows = _table(answer, target)
    plain = [[re.sub(r"^([$€£] ?(?=\d)|[a-z]+ of (?=[a-z]))", "", cell) for cell in row] for row in rows]
    return [[name.lower().replace("_", " ") for name in header], *plain]


CONVERTED = skill("table-formats", "Tables in another format", _conversion, same(_table, "format"))
FROM_NOTES = skill("rows", "Tables from notes", _table_of_notes, same(_comparable, "format"), _changed)
