"""τ under load: the same arrivals with AR, a fixed τ and the controller.

    OMP_NUM_THREADS=1 python -m benchmarks.load [--seconds 12] [--seeds 1 2 3] [--output FILE]

First it measures the server's capacity as AR in requests per second, which is load 1. Then it replays three
traces in real time: a steady load of 0.7, the same with a burst of 3 in its middle third, and twice the
steady load. Times between arrivals are exponential, drawn once per trace and seed; the policies take turns
seed by seed. The requests are held-out prompts of the built-in tasks, whose answers are graded.
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
    asyncio.run(load_test.capacity(checkpoint, load_test.SIZE))  # warm-up
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


def table(file: str | Path = FILE) -> str:
    measured = results.read(file)
    base = {row["trace"]: row["p95"] for row in measured["traces"] if row["policy"] == load_test.BASELINE}
    rows = [
        {
            "arrivals": row["trace"],
            "policy": row["policy"],
            "requests": row["requests"],
            "latency, s": tables.percentiles(row["latency"]),
            "p95 ÷ AR's": results.ranged(results.ratios(base[row["trace"]], row["p95"])),
            "TTFT, s": tables.percentiles(row["first_token"]),
            "accuracy": f"{row['accuracy']:.1%}",
        }
        for row in measured["traces"]
    ]
    summary = (
        "Latency and TTFT are p50, p95 and p99 over all requests. p95 ÷ AR's is the ratio of latencies, "
        "seed by seed: median (smallest–largest)."
    )
    size = (
        f"batch {measured['size']}, load 1 is {measured['capacity']:.1f} requests per second, "
        f"{measured['seconds']:g} s of arrivals, {len(measured['seeds'])} seeds"
    )
    return f"{tables.shown(rows)}\n\n{summary}" + tables.source(measured, size)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-tiny")
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
