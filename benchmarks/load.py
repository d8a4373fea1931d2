"""τ under load: the same arrivals served with a fixed τ and with the controller.

    python -m benchmarks.load [--model mars-tiny] [--seconds 12] [--output assets/results/load.json]

First it measures what the server answers per second at τ = 1 when it is never idle; that is load 1. Then it
replays three traces in real time: a steady load of 0.7, the same with a burst of 3 in its middle third, and
twice the steady load. Arrivals are drawn once per trace, exponentially distributed; questions are the
held-out prompts of the built-in tasks, whose answers are graded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

import torch

from mars_demo import checkpoints, load


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-tiny")
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    checkpoint = checkpoints.load(arguments.model)
    load.capacity(checkpoint, load.SIZE)  # warm
    full = load.capacity(checkpoint, 8 * load.SIZE)
    machine = f"{checkpoint.name}, {checkpoint.model.device.type}, {torch.get_num_threads()} threads"
    print(f"{machine}, batch {load.SIZE}; load 1 is {full:.1f} requests per second\n")
    print(
        "| arrivals | τ | requests | latency p50, p95, p99 | first token p50, p95 | ms per token ", end=""
    )
    print("| tokens per second | queue, most | right |\n|---|---|---|---|---|---|---|---|---|")
    traces = []
    for name, pattern in load.loads(arguments.seconds).items():
        times = list(load.arrivals(pattern, full, seed=1))
        for policy, tau in load.POLICIES.items():
            answered, server = asyncio.run(load.serve(checkpoint, tau, times))
            found = load.measured(answered, server)
            traces.append(
                {"trace": name, "policy": policy, **found, "picture": load.drawn(answered, server)}
            )
            latency, first, queue = found["latency"], found["first_token"], found["queue"]
            print(
                f"| {name} | {policy} | {found['requests']} "
                f"| {latency['p50']:.2f}, {latency['p95']:.2f}, {latency['p99']:.2f} s "
                f"| {first['p50']:.2f}, {first['p95']:.2f} s | {found['ms_per_token']:.1f} "
                f"| {found['tokens_per_second']:.0f} | {queue['mean']:.1f}, {queue['most']} "
                f"| {found['accuracy']:.1%} |",
                flush=True,
            )
    if arguments.output:
        record = {"machine": machine, "capacity": full, "size": load.SIZE, "traces": traces}
        arguments.output.write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
