"""τ under load: the same arrivals served with a fixed τ and with the controller.

    python -m benchmarks.load [--model mars-tiny] [--seconds 20] [--output assets/results/load.json]

First it measures what the server answers per second at τ = 1 when it is never idle; that is load 1. Then it
replays three traces in real time: a steady load of 0.7, the same with a burst of 3 in its middle third, and
twice the steady load. Arrivals are drawn once per trace, exponentially distributed; questions are the
held-out prompts of the built-in tasks, whose answers are graded.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from mars_demo import checkpoints, tasks
from mars_demo.checkpoints import Checkpoint
from mars_demo.evaluation import MAX_NEW_TOKENS, is_right
from mars_demo.serving import Controller, Request, Server, percentile, replay

SIZE = 8
STEADY, BURST = 0.7, 3.0
CONTROLLER = Controller(low=0.8, high=1.0, full=8)
POLICIES: dict[str, float | Controller] = {
    "τ = 1": 1.0,
    "τ = 0.95": 0.95,
    f"controller, τ {CONTROLLER.low:g} to {CONTROLLER.high:g}": CONTROLLER,
}


def loads(seconds: float) -> dict[str, list[tuple[float, float]]]:
    """Each trace as (until, load) in order."""
    third = seconds / 3
    return {
        "steady": [(seconds, STEADY)],
        "burst": [(third, STEADY), (2 * third, BURST), (seconds, STEADY)],
        "twice the load": [(seconds, 2 * STEADY)],
    }


def arrivals(load: Sequence[tuple[float, float]], capacity: float, seed: int) -> Iterator[float]:
    """Seconds at which requests come, `capacity` of them per second at a load of 1."""
    rng, now = random.Random(seed), 0.0
    for until, share in load:
        while (now := now + rng.expovariate(capacity * share)) < until:
            yield now
        now = until


def examples() -> Iterator[tasks.Example]:
    """Held-out examples of all tasks in turn, again and again."""
    return itertools.cycle(
        e for examples in zip(*(tasks.held_out(t, 8) for t in tasks.TASKS)) for e in examples
    )


async def serve(
    checkpoint: Checkpoint, tau: float | Controller, times: Sequence[float]
) -> tuple[list[tuple[tasks.Example, Request]], Server]:
    asked = list(itertools.islice(examples(), len(times)))
    async with Server(checkpoint, SIZE, tau, max_new_tokens=MAX_NEW_TOKENS) as server:
        requests = await replay(server, list(zip(times, (example.prompt for example in asked))))
    return list(zip(asked, requests)), server


def capacity(checkpoint: Checkpoint, count: int) -> float:
    """Requests per second at τ = 1 if all are there at once."""
    _, server = asyncio.run(serve(checkpoint, 1.0, [0.0] * count))
    return count / server.moments[-1].seconds


def measured(answered: Sequence[tuple[tasks.Example, Request]], server: Server) -> dict:
    requests = [request for _, request in answered]
    latencies = [r.finished - r.arrived for r in requests]
    first = [r.first - r.arrived for r in requests]
    per_token = [(r.finished - r.first) / max(1, r.run.tokens - 1) for r in requests]
    tokens, seconds = sum(r.run.tokens for r in requests), max(r.finished for r in requests)
    queue = [moment.waiting for moment in server.moments]
    return {
        "requests": len(requests),
        "latency": {f"p{100 * share:.0f}": percentile(latencies, share) for share in (0.5, 0.95, 0.99)},
        "first_token": {f"p{100 * share:.0f}": percentile(first, share) for share in (0.5, 0.95, 0.99)},
        "ms_per_token": 1000 * sum(per_token) / len(per_token),
        "tokens_per_second": tokens / seconds,
        "tokens_per_forward": tokens / sum(r.run.forwards for r in requests),
        "queue": {"mean": sum(queue) / len(queue), "most": max(queue)},
        "accuracy": sum(is_right(example, r.run) for example, r in answered) / len(answered),
    }


def drawn(answered: Sequence[tuple[tasks.Example, Request]], server: Server, every: float = 0.1) -> dict:
    """What the picture of a replay needs, a moment per `every` seconds."""
    moments, last = [], -every
    for moment in server.moments:
        if moment.seconds - last >= every:
            moments.append([round(value, 3) for value in asdict(moment).values()])
            last = moment.seconds
    times = [[round(t, 3) for t in (r.arrived, r.first, r.finished)] for _, r in answered]
    return {"moments": moments, "requests": times}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-tiny")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    checkpoint = checkpoints.load(arguments.model)
    capacity(checkpoint, SIZE)  # warm
    full = capacity(checkpoint, 8 * SIZE)
    print(
        f"{checkpoint.name}, {checkpoint.model.device.type}, {torch.get_num_threads()} threads, "
        f"batch {SIZE}; load 1 is {full:.1f} requests per second\n"
    )
    print(
        "| arrivals | τ | requests | latency p50, p95, p99 | first token p50, p95 | ms per token ", end=""
    )
    print("| tokens per second | queue, most | right |\n|---|---|---|---|---|---|---|---|---|")
    traces = []
    for name, load in loads(arguments.seconds).items():
        times = list(arrivals(load, full, seed=1))
        for policy, tau in POLICIES.items():
            answered, server = asyncio.run(serve(checkpoint, tau, times))
            found = measured(answered, server)
            traces.append({"trace": name, "policy": policy, **found, "picture": drawn(answered, server)})
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
        record = {"model": checkpoint.name, "capacity": full, "size": SIZE, "traces": traces}
        arguments.output.write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
