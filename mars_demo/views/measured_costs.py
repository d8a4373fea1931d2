"""c(k), the cost of a forward with k positions, and what it makes of tokens per forward."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from pandas import DataFrame

from mars_demo.decoding.costs import SIZES, Costs
from mars_demo.evaluation import results


def curves(measured: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return curves, each c(k) ÷ c(1) for k from 1 to the largest that was measured.

    measured: the `title`, `source` and `points` of each, a point being k and the milliseconds of a forward.
    """
    found = []
    for one in measured:
        costs = Costs.of(dict(one["points"]))
        relative = [costs(k) / costs(1) for k in range(1, SIZES[-1] + 1)]
        sizes = [k for k, _ in costs.points]
        found.append(
            {"title": one["title"], "source": one["source"], "relative": relative, "points": sizes}
        )
    return found


def speeds(file: str, methods: Mapping[str, str], base: str) -> tuple[DataFrame, str] | None:
    """Return methods of a result file relative to a base: what a forward gave, what it cost, and the speed.
    Also where the figures come from; None if nothing is measured yet.

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
