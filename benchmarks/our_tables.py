"""The page's tables of this project's results: `assets/our_tables.json`.

`python -m benchmarks.documents` writes it from the results of other benchmarks: counterparts of the paper's
tables, whose columns are in `assets/paper_tables.json`, and speeds of single prompts. The cells of Table 6,
whose benchmark is gone, stay as they are.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from pandas import DataFrame

from benchmarks import batches, frontier, paper, report, speed
from mars_demo.core.names import TINY
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import AR, Frontier
from mars_demo.evaluation.paper_tables import OURS, PAPER, formatted
from mars_demo.tasks import TASKS

CURVES = {"average": "all tasks", "word-problems": "word-problems", "letters": "letters"}  # by task


def content() -> dict[str, Any]:
    """Return the content of the file."""
    tables = dict(OURS["tables"])
    for number, table in PAPER["tables"].items():
        if ours := table.get("ours"):
            record = read(ours["file"])
            rows = [*ROWS[ours["file"]](record, **ours)]
            source = PAPER["our_sources"][ours["file"]]
            source = source.format(origin=results.origin(record), **record | rows[0])
            tables[number] = {"source": source, "rows": formatted(rows, ours["columns"])}
    curves: dict[str, list] = {name: [] for name in CURVES.values()}
    for row in swept(read(frontier.FILE)):
        if row["task"] in CURVES:
            point = [row["tau"], round(row["accuracy"] / 100, 4), round(row["tokens_per_forward"], 4)]
            curves[CURVES[row["task"]]].append(point)
    speeds = {file: speed.lesson(file) for file in (speed.FILE, speed.CHAT_FILE)}
    return {"tables": tables, "curves": curves, "speeds": speeds}


def read(file: str) -> dict[str, Any]:
    """Return the content of a results file, or its sweep of `mars-tiny`."""
    record = results.read_results(file)
    return next((sweep for sweep in record.get("sweeps", ()) if sweep["model"] == TINY), record)


def trained(record: Mapping, methods: list[tuple[str, str]], **_: Any) -> Iterator[dict]:
    """Yield a row per method and task, means over seeds, with the method's averages over tasks."""
    measured = DataFrame(record["rows"])
    for method, decoding in methods:
        own = measured[(measured["method"] == method) & (measured["decoding"] == decoding)]
        seeds = paper.averaged(own, "seed")
        for task, row in paper.averaged(own, "task").iterrows():
            yield {
                "name": method if decoding == "ar" else f"{method}, {decoding.removeprefix('diffusion ')}",
                "seeds": len(seeds),
                "average": paper.spread(seeds["accuracy"], 1),
                "average_speed": paper.spread(seeds["tokens_per_forward"], 2),
                "task": task,
                **row,
            }


def swept(record: Mapping, **_: Any) -> Iterator[dict]:
    """Yield a row of `mars-tiny` per τ and task, the average first; AR stands for τ = 1."""
    for point in Frontier.read(record).points:
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


def batched(record: Mapping, **_: Any) -> Iterator[dict]:
    """Yield tokens per second and, as in the paper, the ratio of seconds for the same prompts."""
    bases = {row["size"]: row["seconds"] for row in record["rows"] if row["method"] == batches.BASELINE}
    for row in record["rows"]:
        faster = report.faster(row["seconds"], bases[row["size"]])
        speed = f"{row['tokens'] / median(row['seconds']):.1f}, {faster}"
        yield row | {"speed": speed, "rounds": len(row["seconds"])}


ROWS = {paper.FILE: trained, frontier.FILE: swept, batches.FILE: batched}
