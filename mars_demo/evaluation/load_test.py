"""Load tests: requests that arrive in a pattern, served in real time, and their latencies."""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import numpy as np

from mars_demo import tasks
from mars_demo.decoding.request import Request
from mars_demo.evaluation.accuracy import MAX_NEW_TOKENS, is_right
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.serving.server import Controller, Job, Server, replay

SIZE = 8
STEADY, BURST = 0.7, 3.0
CONTROLLER = Controller(low=0.8, high=1.0, full=8)
BASELINE = "AR"
POLICIES: dict[str, float | Controller] = {  # τ of the server; 1 is AR, without masks
    BASELINE: 1.0,
    "τ = 0.95": 0.95,
    f"controller, τ {CONTROLLER.low:g} to {CONTROLLER.high:g}": CONTROLLER,
}
FOR_P99 = 200  # requests; with fewer, p99 depends on one or two of them


def loads(seconds: float) -> dict[str, list[tuple[float, float]]]:
    """Return each trace as (until, load) in order; load 1 is the server's capacity as AR."""
    third = seconds / 3
    return {
        "steady": [(seconds, STEADY)],
        "burst": [(third, STEADY), (2 * third, BURST), (seconds, STEADY)],
        "twice the load": [(seconds, 2 * STEADY)],
    }


def arrivals(load: Sequence[tuple[float, float]], capacity: float, seed: int) -> Iterator[float]:
    """Yield the arrival times in seconds, at `capacity` requests per second for load 1."""
    rng, now = random.Random(seed), 0.0
    for until, share in load:
        while (now := now + rng.expovariate(capacity * share)) < until:
            yield now
        now = until


async def serve(
    checkpoint: Checkpoint, tau: float | Controller, times: Sequence[float]
) -> tuple[list[tuple[tasks.Example, Job]], Server]:
    """Submit held-out examples at these times; return each with its job, and the server.

    Raises:
        ValueError: if the replay takes more forwards than a server keeps.
    """
    examples = list(itertools.islice(itertools.cycle(tasks.mixed(8)), len(times)))
    request = Request("mars", max_new_tokens=MAX_NEW_TOKENS)
    async with Server(checkpoint, SIZE, tau, request) as server:
        requests = await replay(server, list(zip(times, (example.prompt for example in examples))))
    if server.forwards > len(server.moments):
        raise ValueError(f"The replay took more than {len(server.moments)} forwards. Replay fewer seconds.")
    return list(zip(examples, requests)), server


async def capacity(checkpoint: Checkpoint, count: int) -> float:
    """Return the requests per second as AR when all arrive at once."""
    _, server = await serve(checkpoint, POLICIES[BASELINE], [0.0] * count)
    return count / server.moments[-1].seconds


def measured(served: Sequence[tuple[Sequence[tuple[tasks.Example, Job]], Server]]) -> dict:
    """Return the measurements of one policy over its replays. Latency and TTFT are seconds."""
    answered = [pair for pairs, _ in served for pair in pairs]
    requests = [request for _, request in answered]
    per_token = [(r.finished - r.first) / max(1, r.run.tokens - 1) for r in requests]
    tokens = sum(r.run.tokens for r in requests)
    seconds = sum(max(request.finished for _, request in pairs) for pairs, _ in served)
    queue = [moment.waiting for _, server in served for moment in server.moments]
    return {
        "requests": len(requests),
        "latency": percentiles([r.finished - r.arrived for r in requests]),
        "first_token": percentiles([r.first - r.arrived for r in requests]),
        "ms_per_token": 1000 * sum(per_token) / len(per_token),
        "tokens_per_second": tokens / seconds,
        "tokens_per_forward": tokens / sum(r.run.forwards for r in requests),
        "queue": {"mean": sum(queue) / len(queue), "most": max(queue)},
        "accuracy": sum(is_right(example, r.run) for example, r in answered) / len(answered),
    }


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return p50 and p95, and p99 if there are enough values."""
    shares = (0.5, 0.95, 0.99) if len(values) >= FOR_P99 else (0.5, 0.95)
    quantiles = np.quantile(values, shares, method="inverted_cdf")
    return {f"p{100 * share:.0f}": float(value) for share, value in zip(shares, quantiles)}


def drawn(answered: Sequence[tuple[tasks.Example, Job]], server: Server, every: float = 0.1) -> dict:
    """Return the data for the plot of a replay, with a moment per `every` seconds."""
    moments, last = [], -every
    for moment in server.moments:
        if moment.seconds - last >= every:
            moments.append([round(value, 3) for value in asdict(moment).values()])
            last = moment.seconds
    times = [[round(t, 3) for t in (r.arrived, r.first, r.finished)] for _, r in answered]
    return {"moments": moments, "requests": times}
