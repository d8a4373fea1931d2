"""Costs of forwards: c(k) for k positions, and the resulting speed of methods."""

from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np
from pandas import DataFrame

from mars_demo.evaluation import results


def relative(points: Sequence[Sequence[float]], positions: float) -> float:
    """Return c(k) ÷ c(1), linear between the measured points (k, milliseconds), which begin with k = 1."""
    sizes, ms = zip(*points)
    return float(np.interp(positions, sizes, ms)) / ms[0]


def speeds(file: str, methods: Mapping[str, str], base: str) -> tuple[DataFrame, str]:
    """Return tokens per forward, cost of a forward and speed of methods relative to a base.

    The second value is the source of the figures.

    file: the results file.
    methods: titles, each with the method's name in the file; for batches, `name @ size`.
    base: the name of the base in the file, taken at the same batch size.
    """
    measured = results.read(file)
    rows = {(row["method"], row.get("size")): row for row in measured["rows"]}
    table = []
    for title, name in methods.items():
        method, _, size = name.partition(" @ ")
        size = int(size) if size else None
        row, one = rows[method, size], rows[base, size]
        faster = results.ranged(results.ratios(row["seconds"], one["seconds"]), unit="×")
        forwards = {key: median(r["seconds"]) / r["forwards"] for key, r in (("row", row), ("one", one))}
        each = row["tokens"] / row["forwards"], one["tokens"] / one["forwards"]
        table.append(
            {
                "method": title,
                "tokens per forward": f"{each[0] / each[1]:.2f}",
                "cost of a forward": f"{forwards['row'] / forwards['one']:.2f}",
                "speed": faster,
            }
        )
    source = f"{results.origin(measured)} · {measured['machine']} · {measured['prompts']} prompts"
    return DataFrame(table), source
