"""The paper's tables, and this project's counterpart of each.

`assets/paper_tables.json` has the paper's numbers, and for both tables the format of each column.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

from pandas import DataFrame

from mars_demo.core.assets import read_json
from mars_demo.core.names import TINY
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import AR, Frontier
from mars_demo.tasks import TASKS

PAPER = read_json("paper_tables.json")
TITLES = {int(number): f"Table {number}: {table['title']}" for number, table in PAPER["tables"].items()}
AR_IN_BATCHES = "AR, continuous"  # the baseline of speeds in batches
SWEEP = 8  # the table that is also plotted
CURVE = {"task": "GSM8K", "block_size": 8, "sft_loss": True}  # of the paper; mars-tiny has B = 8 too
OUR_CURVES = {"average": "all tasks", "word-problems": "word-problems", "letters": "letters"}  # ours


class Table(NamedTuple):
    """A table to display."""

    frame: DataFrame  # cells are text; the first column names the rows
    source: str  # the origin and unit of the numbers


class Point(NamedTuple):
    """A point of a τ sweep."""

    tau: float
    accuracy: float
    tokens_per_forward: float


def paper(number: int) -> Table:
    table = PAPER["tables"][str(number)]
    frame = _frame(PAPER[table["rows"]], table["columns"])
    return Table(frame, f"the paper's Table {number}: {table['unit']}")


def here(number: int) -> Table | None:
    """Return this project's counterpart of Table `number`; None if not measured."""
    table = PAPER["tables"][str(number)]
    ours = table["ours"]
    record = results.read(ours["file"])
    rows = [*ROWS[ours["file"]](record, **ours)] if record else []
    if not rows:
        return None
    source = PAPER["our_sources"][ours["file"]].format(origin=results.origin(record), **record | rows[0])
    return Table(_frame(rows, ours["columns"]), f"{source}: {table['unit']}")


def _frame(rows: Iterable[Mapping], columns: Mapping[str, str]) -> DataFrame:
    """Return a table with cells as text; rows whose first cells are equal share a row of the table.

    columns: the format of each column's title and cells.
    """
    lines: dict[str, dict[str, str]] = {}
    for row in rows:
        cells = {title.format(**row): form.format(**row) for title, form in columns.items()}
        lines.setdefault(next(iter(cells.values())), {}).update(cells)
    return DataFrame([*lines.values()])


def paper_curves() -> dict[str, list[Point]]:
    """Return the paper's τ sweep on one benchmark with one block size, a curve per scale."""
    rows = [row for row in PAPER["table8_tau_sweep"] if CURVE.items() <= row.items()]
    return _curves((f"{row['scale']}, {CURVE['task']}, B = {CURVE['block_size']}", row) for row in rows)


def our_curves() -> dict[str, list[Point]]:
    """Return the τ sweep of `mars-tiny` on all tasks and on two of them; empty if not measured."""
    record = results.read("frontier.json")
    rows = _swept(record) if record else ()
    return _curves((OUR_CURVES[row["task"]], row) for row in rows if row["task"] in OUR_CURVES)


def _curves(named: Iterable[tuple[str, Mapping]]) -> dict[str, list[Point]]:
    curves: dict[str, list[Point]] = {}
    for name, row in named:
        point = Point(row["tau"], row["accuracy"] / 100, row["tokens_per_forward"])
        curves.setdefault(name, []).append(point)
    return curves


def _trained(record: Mapping, methods: list[tuple[str, str]], **_: Any) -> Iterator[dict]:
    """Yield a row per method and task, means over seeds, with the method's averages over tasks."""
    groups = results.grouped(record["rows"])
    for method, decoding in methods:
        rows = groups.get((method, decoding), [])
        seeds = results.averages(rows, "seed").values()
        for task, row in results.averages(rows, "task").items():
            yield {
                "name": method if decoding == "ar" else f"{method}, {decoding.removeprefix('diffusion ')}",
                "seeds": len(seeds),
                "average": results.spread([100 * seed.accuracy for seed in seeds], 1),
                "average_speed": results.spread([seed.tokens_per_forward for seed in seeds], 2),
                "task": task,
                "accuracy": 100 * row.accuracy,
                "tokens_per_forward": row.tokens_per_forward,
            }


def _swept(record: Mapping, **_: Any) -> Iterator[dict]:
    """Yield a row of `mars-tiny` per τ and task, the average first; AR stands for τ = 1."""
    for point in Frontier.read(next(one for one in record["sweeps"] if one["model"] == TINY)).points:
        if point.setting != AR and point.setting.criterion != "probability":
            continue
        by_task = {
            name: replace(point, outcomes=point.outcomes[number :: len(TASKS)])
            for number, name in enumerate(TASKS)  # prompts take the tasks in turn
        }
        for task, part in ({"average": point} | by_task).items():
            speed = part.tokens_per_forward
            row = {"task": task, "accuracy": 100 * part.accuracy, "tokens_per_forward": speed}
            yield row | {"tau": point.setting.tau or 1.0, "prompts": point.n}


def _batched(record: Mapping, **_: Any) -> Iterator[dict]:
    """Yield tokens per second and, as in the paper, the ratio of seconds for the same prompts."""
    bases = {row["size"]: row["seconds"] for row in record["rows"] if row["method"] == AR_IN_BATCHES}
    for row in record["rows"]:
        speed = f"{row['tokens'] / median(row['seconds']):.1f}"
        if base := bases.get(row["size"]):
            speed += f", {results.ranged(results.ratios(row['seconds'], base), unit='×')}"
        yield row | {"speed": speed, "rounds": len(row["seconds"])}


def _speculated(record: Mapping, **_: Any) -> Iterator[dict]:
    """Yield a row per pair; as in the paper, AR drafting for AR has speed-up 1."""
    rows = record["rows"]
    [base] = [r for r in rows if (r["draft"], r["target"]) == ("ar", "ar") and r["draft_forwards"]]
    for row in rows:
        pair = f"{row['draft']} for {row['target']}"
        if not row["draft_forwards"]:
            pair = f"no draft, {row['target']} in mode {row['draft']}"
        yield {
            "pair": pair + ("" if row["tau"] is None else f", τ = {row['tau']:g}"),
            "accuracy": 100 * row["accuracy"],
            "speedup": results.ranged(results.ratios(row["seconds"], base["seconds"])),
            "tokens_per_target_forward": row["tokens"] / row["target_forwards"],
            "tokens_per_second": row["tokens"] / median(row["seconds"]),
            "seconds": median(row["seconds"]),
            "rounds": len(row["seconds"]),
        }


# The rows for the columns of each results file.
ROWS = {
    "paper.json": _trained,
    "frontier.json": _swept,
    "batches.json": _batched,
    "speculative.json": _speculated,
}
