"""c(k), the cost of a forward with k positions, as result files of this project have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from pandas import DataFrame

from mars_demo.decoding.costs import SIZES, Costs
from mars_demo.evaluation import results


def curves(wanted: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Measured curves, each c(k) ÷ c(1) for k from 1 to the largest that was measured.

    wanted: of each its `title`, and the `file` of results: one with `costs`, or one with a row for each
        kernel and the `kernel` that is meant. What is not measured yet is left out.
    """
    found = []
    for one in wanted:
        if measured := results.read(one["file"]):
            costs = Costs.of(_milliseconds(measured, one.get("kernel")))
            relative = [costs(k) / costs(1) for k in range(1, SIZES[-1] + 1)]
            source = f"{measured['command']} · {measured['machine']}"
            points = [k for k, _ in costs.points]
            found.append({"title": one["title"], "source": source, "relative": relative, "points": points})
    return found


def _milliseconds(measured: Mapping, kernel: str | None) -> dict[int, float]:
    if kernel is None:
        return dict(measured["costs"])
    row = next(row for row in measured["rows"] if row["kernel"] == kernel)
    return {int(k): ms for k, ms in row["ms"].items()}


def speeds(file: str, methods: Mapping[str, str], base: str) -> tuple[DataFrame, str] | None:
    """Methods of a result file relative to a base: what a forward gave, what it cost, and the speed. Also
    where the figures come from; None if nothing is measured yet.

    methods: what to call each method, and its name in the file; in a file of batches, `name @ size`.
    base: the method, as the file names it; of the same batch size.
    """
    measured = results.read(file)
    if measured is None:
        return None
    rows = {(row["method"], row.get("size")): row for row in measured["rows"]}
    found = []
    for title, name in methods.items():
        method, _, size = name.partition(" @ ")
        size = int(size) if size else None
        row, one = rows[method, size], rows[base, size]
        faster = results.ranged(results.ratios(row["seconds"], one["seconds"]), unit="×")
        forwards = {key: median(r["seconds"]) / r["forwards"] for key, r in (("row", row), ("one", one))}
        each = row["tokens"] / row["forwards"], one["tokens"] / one["forwards"]
        found.append(
            {
                "method": title,
                "tokens per forward": f"{each[0] / each[1]:.2f}",
                "cost of a forward": f"{forwards['row'] / forwards['one']:.2f}",
                "speed": faster,
            }
        )
    source = f"`{measured['command']}` · {measured['machine']} · {measured['prompts']} prompts"
    return DataFrame(found), source
