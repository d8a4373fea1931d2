"""τ under load: the same arrivals answered as AR, with a fixed τ and with the controller.

    OMP_NUM_THREADS=1 python -m benchmarks.load [--seconds 12] [--seeds 1 2 3] [--output FILE]

First it measures what the server answers per second as AR when it is never idle; that is load 1. Then it
replays three traces in real time: a steady load of 0.7, the same with a burst of 3 in its middle third, and
twice the steady load. Arrivals are exponentially distributed and drawn once per trace and seed; the
policies take turns seed by seed. Questions are the held-out prompts of the built-in tasks, whose answers
are graded.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from mars_demo.evaluation import load_test, results
from mars_demo.models.load import load_checkpoint


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-tiny")
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    checkpoint = load_checkpoint(arguments.model)
    asyncio.run(load_test.capacity(checkpoint, load_test.SIZE))  # warm
    full = asyncio.run(load_test.capacity(checkpoint, 8 * load_test.SIZE))
    machine = results.machine(checkpoint)
    print(f"{machine}, batch {load_test.SIZE}; load 1 is {full:.1f} requests per second\n")
    print("| arrivals | policy | requests | latency, s | by seed: p95 | first token, s | right |")
    print("|---|---|---|---|---|---|---|")
    traces = []
    for name, pattern in load_test.loads(arguments.seconds).items():
        served: dict[str, list] = {policy: [] for policy in load_test.POLICIES}
        for seed in arguments.seeds:
            times = list(load_test.arrivals(pattern, full, seed))
            for policy, tau in load_test.POLICIES.items():
                served[policy].append(asyncio.run(load_test.serve(checkpoint, tau, times)))
        for policy, replays in served.items():
            found = load_test.measured(replays)
            p95 = [load_test.measured([replay])["latency"]["p95"] for replay in replays]
            picture = load_test.drawn(*replays[0])
            traces.append({"trace": name, "policy": policy, **found, "p95": p95, "picture": picture})
            latency, first = (
                ", ".join(f"{key} {value:.2f}" for key, value in found[key_].items())
                for key_ in ("latency", "first_token")
            )
            print(
                f"| {name} | {policy} | {found['requests']} | {latency} | {results.ranged(p95)} | {first} "
                f"| {found['accuracy']:.1%} |",
                flush=True,
            )
    if arguments.output:
        record = {"capacity": full, "size": load_test.SIZE, "seconds": arguments.seconds, "traces": traces}
        results.write(arguments.output, machine, record | {"seeds": arguments.seeds})


if __name__ == "__main__":
    main()
