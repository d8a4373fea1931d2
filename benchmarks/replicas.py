"""How many copies of a server so many visitors need: a simulation, fed with measured service times.

    python -m benchmarks.replicas [--model mars-tiny] [--visitors 20 50 200] [--every 30] [--bound 3]
        [--measured FILE] [--output FILE]

Every visitor sends a request every 30 seconds on average, at random. Service times are those of requests
that were alone, in `assets/results/serving.json`; how much requests that share a replica slow each other
down is the latency of its closed loads. Prints, for a common queue and for sticky sessions, the fewest
replicas with which 95 % of the requests have their first token within the bound.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from pandas import DataFrame

from mars_demo.evaluation import results
from mars_demo.evaluation.replicas import Asked, Load, interpolated, needed, sampled, simulate
from mars_demo.markdown import table
from mars_demo.serving.server import percentile

SHARE = 0.95
MOST = 64  # replicas
WAYS = {"common queue": False, "sticky sessions": True}


def slowdown(measured: dict, size: int) -> list[float]:
    """How many times as long a request takes with 1, 2, … at once, up to the places of a server."""
    latency = {row["clients"]: row["mean_latency"] for row in measured["closed"] if row["clients"] <= size}
    return interpolated({clients: seconds / latency[1] for clients, seconds in latency.items()})


def rows(measured: dict, size: int, visitors: int, every: float, bound: float) -> Iterator[dict]:
    """A row for each way to share requests out."""
    load, draw, slow = (
        Load(visitors / every, visitors),
        sampled(measured["service"]),
        slowdown(measured, size),
    )

    def served(replicas: int, sticky: bool) -> list[Asked]:
        return simulate(load, draw, slow, replicas, sticky=sticky)

    for way, sticky in WAYS.items():
        enough = needed(
            lambda replicas, sticky=sticky: [asked.first_token for asked in served(replicas, sticky)],
            bound, SHARE, MOST,
        )  # fmt: skip
        row = {"visitors": visitors, "rate": load.rate, "way": way, "replicas": enough}
        if enough:
            found = served(enough, sticky)
            row["waited"] = _percentiles([asked.waited for asked in found])
            row["first_token"] = _percentiles([asked.first_token for asked in found])
        yield row


def _percentiles(seconds: list[float]) -> dict[str, float]:
    return {f"p{100 * share:.0f}": round(percentile(seconds, share), 4) for share in (0.5, 0.95, 0.99)}


def shown(found: list[dict]) -> str:
    """The rows as a table."""
    return table(
        DataFrame(
            {
                "visitors": row["visitors"],
                "requests per second": f"{row['rate']:.2f}",
                "requests are shared out by": row["way"],
                "replicas": row["replicas"] or f"more than {MOST}",
                "waiting p50, p95, p99": _seconds(row.get("waited")),
                "first token p50, p95, p99": _seconds(row.get("first_token")),
            }
            for row in found
        )
    )


def _seconds(values: dict[str, float] | None) -> str:
    return "–" if values is None else ", ".join(f"{value:.2f}" for value in values.values()) + " s"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-tiny")
    parser.add_argument("--visitors", type=int, nargs="+", default=[20, 50, 200, 1000])
    parser.add_argument("--every", type=float, default=30.0, help="seconds between a visitor's requests")
    parser.add_argument("--bound", type=float, default=3.0, help="seconds until the first token, for 95 %%")
    parser.add_argument("--measured", type=Path, default=results.FOLDER / "serving.json")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    if not arguments.measured.exists():
        parser.error(
            f"{arguments.measured} is not there. `python -m benchmarks.serving --output` writes it."
        )
    file = json.loads(arguments.measured.read_text(encoding="utf-8"))
    models = {measured["model"]: measured for measured in file["models"]}
    if arguments.model not in models:
        parser.error(f"{arguments.model} was not measured. Choose from {', '.join(models)}.")
    found = [
        row
        for visitors in arguments.visitors
        for row in rows(models[arguments.model], file["size"], visitors, arguments.every, arguments.bound)
    ]
    print(shown(found))
    if arguments.output:
        known = {"model": arguments.model, "every": arguments.every, "bound": arguments.bound}
        results.write(arguments.output, file["machine"], known | {"size": file["size"], "rows": found})


if __name__ == "__main__":
    main()
