"""The paper's tables, and this project's counterpart of each.

`assets/paper_tables.json` has the paper's numbers and the format of each column, `assets/our_tables.json`
the cells of our tables, which `python -m benchmarks.documents` writes, and of further tables of the page.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pandas import DataFrame

from mars_demo.core.assets import read_json

PAPER, OURS = read_json("paper_tables.json"), read_json("our_tables.json")
TITLES = {int(number): f"Table {number}: {table['title']}" for number, table in PAPER["tables"].items()}
SWEEP = 8  # the table that is also plotted
CURVE = {"task": "GSM8K", "block_size": 8, "sft_loss": True}  # of the paper; mars-tiny has B = 8 too


class PaperTable(NamedTuple):
    """A table to display."""

    frame: DataFrame  # cells are text; the first column names the rows
    source: str  # the origin and unit of the numbers


def paper(number: int) -> PaperTable:
    table = PAPER["tables"][str(number)]
    rows = formatted(PAPER[table["rows"]], table["columns"])
    return PaperTable(DataFrame(rows), f"the paper's Table {number}: {table['unit']}")


def here(number: int) -> PaperTable:
    """Return this project's counterpart of Table `number`."""
    table = OURS["tables"][str(number)]
    return PaperTable(
        DataFrame(table["rows"]), f"{table['source']}: {PAPER['tables'][str(number)]['unit']}"
    )


def formatted(rows: list[dict], columns: dict[str, str]) -> list[dict[str, str]]:
    """Return rows with cells as text; rows whose first cells are equal become one row.

    columns: the format of each column's title and cells.
    """
    lines: dict[str, dict[str, str]] = {}
    for row in rows:
        cells = {title.format(**row): form.format(**row) for title, form in columns.items()}
        lines.setdefault(next(iter(cells.values())), {}).update(cells)
    return [*lines.values()]


def curves() -> dict[str, list[Sequence[float]]]:
    """Return τ sweeps by name, as points of τ, accuracy and tokens per forward.

    The paper's has one benchmark with one block size and a curve per scale, that of `mars-tiny` a curve for
    all tasks and for two of them.
    """
    named: dict[str, list[Sequence[float]]] = {}
    for row in PAPER["table8_tau_sweep"]:
        if CURVE.items() <= row.items():
            name = f"paper, {row['scale']}, {CURVE['task']}, B = {CURVE['block_size']}"
            point = (row["tau"], row["accuracy"] / 100, row["tokens_per_forward"])
            named.setdefault(name, []).append(point)
    return named | {f"mars-tiny, {name}": points for name, points in OURS["curves"].items()}
