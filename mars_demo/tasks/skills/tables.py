"""Converting tables between CSV, Markdown and JSON."""

import csv
import json
import random
from collections.abc import Callable

from mars_demo.tasks.common import Example
from mars_demo.tasks.skills import words
from mars_demo.tasks.skills.common import LONGEST, Kinds, kinds, lines_of, request, skill, unfenced

Table = list[list[str]]  # the header is the first row


def _csv(table: Table) -> str:
    return "\n".join(",".join(row) for row in table)


def _markdown(table: Table) -> str:
    rows = [f"| {' | '.join(row)} |" for row in table]
    return "\n".join([rows[0], f"|{' --- |' * len(table[0])}", *rows[1:]])


def _json(table: Table) -> str:
    rows = [json.dumps(dict(zip(table[0], row))) for row in table[1:]]
    return "[\n  " + ",\n  ".join(rows) + "\n]"


def _read_csv(text: str) -> Table:
    return [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if row]


def _read_markdown(text: str) -> Table:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines_of(text)]
    if len(rows) < 2 or any(set(cell) - set(":- ") or "-" not in cell for cell in rows[1]):
        raise ValueError("no line under the header")
    return [rows[0], *rows[2:]]


def _read_json(text: str) -> Table:
    rows = json.loads(text)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows) or not rows:
        raise ValueError("no list of objects")
    header = list(rows[0])
    return [header, *([str(row[key]) for key in header] for row in rows if row.keys() == rows[0].keys())]


# The writer and the reader of each format.
FORMATS: dict[str, tuple[Callable[[Table], str], Callable[[str], Table]]] = {
    "CSV": (_csv, _read_csv),
    "Markdown": (_markdown, _read_markdown),
    "JSON": (_json, _read_json),
}


_first, _city = words.one_of(words.FIRST_NAMES), words.one_of(words.CITIES)
_product, _day = words.one_of(words.PRODUCTS), words.one_of(words.DAYS)


def _count(rng: random.Random) -> str:
    return str(rng.randint(1, 99))


COLUMNS = Kinds(
    seen=(
        {"name": _first, "city": _city, "age": _count},
        {"product": _product, "price": words.price, "stock": _count},
        {"id": _count, "customer": words.person, "city": _city, "total": words.price},
        {"day": _day, "time": words.clock, "teacher": words.person},
        {"employee": words.person, "email": words.email, "desk": _count},
        {"item": _product, "owner": _first, "shelf": _count, "day": _day},
    ),
    unseen=(
        {"station": _city, "platform": _count, "departure": words.clock},
        {"player": _first, "wins": _count, "losses": _count, "club": _city},
    ),
)
ASKS = kinds("table-formats")


def make(rng: random.Random, unseen: bool) -> Example:
    source, target = rng.sample(list(FORMATS), 2)
    columns = COLUMNS.pick(rng, unseen)
    header = rng.sample(list(columns), rng.randint(2, len(columns)))
    table = [header, *([columns[key](rng) for key in header] for _ in range(rng.randint(2, 4)))]
    prompt = request(rng, ASKS.pick(rng, unseen), FORMATS[source][0](table), source=source, target=target)
    return Example("table-formats", prompt, FORMATS[target][0](table), {"format": target, "table": table})


def grade(example: Example, answer: str) -> bool:
    """Return whether the answer, parsed in its format, is the same table."""
    try:
        table = FORMATS[example.facts["format"]][1](unfenced(answer[:LONGEST]))
    except (ValueError, RecursionError, csv.Error):
        return False
    return table == example.facts["table"]


TASK = skill("table-formats", "Tables in another format", make, grade)
