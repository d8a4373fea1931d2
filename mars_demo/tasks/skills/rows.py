"""Markdown tables and JSON lists from rows in informal notes."""

import random
import re

from mars_demo.tasks.common import Example, same
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import and_list, is_inline, request, skill, texts, written
from mars_demo.tasks.skills.tables import READERS, WRITERS, Table

# `schemes` have names of each column, and forms of a row; the first column names the row.
TEXT = texts("rows")
ASKS = {"Markdown": TEXT.asks_table, "JSON": TEXT.asks_json}
COLUMNS = words.drawings(TEXT.columns)
SEPARATORS = (", ", " - ", " | ", "\t", " / ")  # between the cells of a row without words


def make(rng: random.Random, unseen: bool) -> Example:
    target = rng.choice(list(ASKS))
    phrasing, scheme = ASKS[target].pick(rng, unseen), TEXT.schemes.pick(rng, unseen)
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
    cells = 9 if target == "JSON" else 14
    count = rng.randint(2, max(2, min(5, cells // len(columns))))
    key, currency = list(names)[0], rng.choice(("", "", "", "$", "€"))
    rows = _draw(rng, form, key, currency, count)
    lines = [form.format(**row) for row in rows]
    if is_headed:
        lines.insert(0, form.format(**names))
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
    table = [header, *([row[column] for column in columns] for row in rows)]
    facts = {"form": form, "columns": columns, "key": key, "currency": currency}
    return _example(prompt, target, table, facts)


def _value(rng: random.Random, column: str, currency: str) -> str:
    return (currency if column in ("price", "amount") else "") + COLUMNS[column](rng)


def _draw(rng: random.Random, form: str, key: str, currency: str, count: int) -> list[dict[str, str]]:
    """Return rows with different values of a key column, for a form."""
    rows: dict[str, dict[str, str]] = {}
    while len(rows) < count:
        row = {column: _value(rng, column, currency) for column in words.fields_of(form)}
        rows[row.get(key, str(len(rows)))] = row
    return list(rows.values())


def _material(rng: random.Random, lines: list[str], is_headed: bool, inline: bool) -> str:
    """Return rows as sentences, or separated by a mark that does not occur in a row."""
    if is_headed and not inline:
        return "\n".join(lines)
    comma = ", " if not any("," in line for line in lines) else "; "
    return written(rng, lines, inline, (" ",) if lines[0].endswith(".") else (comma, "; "))


def _example(prompt: str, target: str, table: Table, facts: dict) -> Example:
    return Example("rows", prompt, WRITERS[target][0](table), facts | {"format": target, "table": table})


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example | None:
    """Return a request to change a value, to add or remove a row or a column, or for the other format."""
    facts = example.facts
    (header, *rows), target, columns = facts["table"], facts["format"], facts["columns"]
    change = rng.choice(("add", "remove", "change", "drop", "format"))
    place = columns.index(facts["key"]) if facts["key"] in columns else None
    details: dict[str, str] = {}
    row, other = rng.randrange(len(rows)), rng.randrange(len(header))
    cells = len(rows) * len(header)
    if change == "format" and cells <= 9:
        change = target = "JSON" if target == "Markdown" else "Markdown"
    elif change == "add" and cells < 9:
        (new,) = _draw(rng, facts["form"], facts["key"], facts["currency"], 1)
        details["row"] = facts["form"].format(**new).rstrip(".").replace("\t", ", ")
        if any(row[place] == new[facts["key"]] for row in rows if place is not None):
            return None
        rows = [*rows, [new[column] for column in columns]]
    elif change == "drop" and len(header) > 2 and other != place:
        details["column"] = header[other]
        header, *rows = ([*cells[:other], *cells[other + 1 :]] for cells in (header, *rows))
        columns = [*columns[:other], *columns[other + 1 :]]
    elif change == "remove" and len(rows) > 2 and place is not None:
        details["name"] = rows[row][place]
        rows = [*rows[:row], *rows[row + 1 :]]
    elif change == "change" and place not in (None, other):
        old, value = rows[row][other], _value(rng, columns[other], facts["currency"])
        if value == old:
            return None
        details |= {"name": rows[row][place], "column": header[other], "value": value, "old": old}
        rows = [[*r[:other], value, *r[other + 1 :]] if r is rows[row] else r for r in rows]
    else:
        return None
    prompt = request(rng, TEXT.follow_ups[change].pick(rng, unseen), **details)
    return _example(prompt, target, [header, *rows], facts | {"columns": columns})


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer, parsed in its format, is the same table.

    Headings may have other capitals; cells may lack a currency or a measure, as in "loaves of bread".
    """
    read = READERS[example.facts["format"]]
    return same(lambda text: _comparable(read(text)))(example, answer)


def _comparable(table: Table) -> Table:
    """Return a table with its header in lower case, and cells without a currency or a measure."""
    header, *rows = table
    plain = [[re.sub(r"^([$€£] ?(?=\d)|[a-z]+ of (?=[a-z]))", "", cell) for cell in row] for row in rows]
    return [[name.lower().replace("_", " ") for name in header], *plain]


TASK = skill("rows", "Tables from notes", make, grade, follow_up)
