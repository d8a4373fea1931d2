"""τ under load: the same arrivals answered as AR, with a fixed τ and with the controller.

    OMP_NUM_THREADS=1 python -m benchmarks.load [--seconds 12] [--seeds 1 2 3] [--output FILE]

First it measures what the server answers per second as AR when it is never idle; that is load 1. Then it
replays three traces in real time: a steady load of 0.7, the same with a burst of 3 in its middle third, and
twice the steady load. Arrivals are exponentially distributed and drawn once per trace and seed; the
policies take turns seed by seed. Questions are the held-out prompts of the built-in tasks, whose answers
are graded.
"""

import argparse
import asyncio
from pathlib import Path

from benchmarks import tables
from mars_demo.evaluation import load_test, results
from mars_demo.models.load import load_checkpoint
from mars_demo.progress import progress

FILE = "load.json"


def measure(model: str, seconds: float, seeds: list[int], output: Path) -> None:
    checkpoint = load_checkpoint(model)
    asyncio.run(load_test.capacity(checkpoint, load_test.SIZE))  # warm
    full = asyncio.run(load_test.capacity(checkpoint, 8 * load_test.SIZE))
    traces = []
    for name, pattern in load_test.loads(seconds).items():
        served: dict[str, list] = {policy: [] for policy in load_test.POLICIES}
        for seed in progress(seeds, len(seeds), name, "seed"):
            times = list(load_test.arrivals(pattern, full, seed))
            for policy, tau in load_test.POLICIES.items():
                served[policy].append(asyncio.run(load_test.serve(checkpoint, tau, times)))
        for policy, replays in served.items():
            p95 = [load_test.measured([replay])["latency"]["p95"] for replay in replays]
            picture = load_test.drawn(*replays[0])
            row = load_test.measured(replays) | {"p95": p95, "picture": picture}
            traces.append({"trace": name, "policy": policy} | row)
    record = {"capacity": full, "size": load_test.SIZE, "seconds": seconds, "traces": traces}
    results.write(output, results.machine(checkpoint), record | {"seeds": seeds})


def burst() -> tuple[dict, dict]:
    """Return what AR and the controller made of the burst."""
    rows = {row["policy"]: row for row in results.read(FILE)["traces"] if row["trace"] == "burst"}
    return rows[load_test.BASELINE], next(row for name, row in rows.items() if "controller" in name)


def table(file: str | Path = FILE) -> str:
    measured = results.read(file)
    rows = [
        {
            "arrivals": row["trace"],
            "policy": row["policy"],
            "requests": row["requests"],
            "latency, s": tables.percentiles(row["latency"]),
            "p95 by seed, s": results.ranged(row["p95"]),
            "first token, s": tables.percentiles(row["first_token"]),
            "tokens per second": f"{row['tokens_per_second']:.0f}",
            "queue: mean, most": f"{row['queue']['mean']:.1f}, {row['queue']['most']}",
            "accuracy": f"{row['accuracy']:.1%}",
        }
        for row in measured["traces"]
    ]
    ar, controlled = burst()
    less = [100 * (1 - b / a) for a, b in zip(ar["p95"], controlled["p95"], strict=True)]
    said = (
        "Latencies are p50, p95 and, from 200 requests on, p99, over the requests of all seeds. In the "
        f"burst the controller's p95 is {results.ranged(less, 0, ' %')} below AR's, seed by seed, with "
        f"{controlled['accuracy']:.1%} right answers against {ar['accuracy']:.1%}."
    )
    size = (
        f"batch {measured['size']}, load 1 is {measured['capacity']:.1f} requests per second, "
        f"{measured['seconds']:g} s of arrivals, {len(measured['seeds'])} seeds"
    )
    return f"{tables.shown(rows)}\n\n{said}" + tables.source(measured, size)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-tiny")
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
