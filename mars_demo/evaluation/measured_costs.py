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
    """Return tokens per forward, cost of a forward and speed of methods relative to a base, and the source.

    file: the results file.
    methods: titles, each with the method's name in the file.
    base: the name of the base in the file.
    """
    measured = results.read(file)
    rows = {row["method"]: row | {"ms": median(row["seconds"])} for row in measured["rows"]}
    one, table = rows[base], []
    for title, name in methods.items():
        row = rows[name]
        tokens, cost = (
            row[part] / row["forwards"] / (one[part] / one["forwards"]) for part in ("tokens", "ms")
        )
        table.append(
            {
                "method": title,
                "tokens per forward": f"{tokens:.2f}",
                "cost of a forward": f"{cost:.2f}",
                "speed": results.faster(row["seconds"], one["seconds"]),
            }
        )
    source = f"{results.origin(measured)} · {measured['machine']} · {measured['prompts']} prompts"
    return DataFrame(table), source
