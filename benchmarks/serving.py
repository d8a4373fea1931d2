"""What one machine serves: clients over HTTP, and forwards that are shared or not.

    python -m benchmarks.serving [--models mars-tiny mars-smollm2-135m] [--seconds 8] [--output FILE]

For each model, the server (`python -m mars_demo serve`) is a process of its own, and the clients are in
this one. First 1, 4, 8 and 16 clients each send their next request when the last one is answered (a closed
load). Then requests arrive at random, at 0.7 times the rate that was reached before, whoever waits (an open
load).

The server has ended when the second part begins. It answers 1, 4, 8 and 16 requests at once in two ways:
in turns, each by the checkpoint's own fastest way for one text, one forward of one request after the other;
and together, with forwards that they share in the cursor cache. The two take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

import httpx

from mars_demo import tasks
from mars_demo.assets import ASSETS
from mars_demo.decoding import costs
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.evaluation import load_test, results
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.training import distillation

AT_ONCE = (1, 4, 8, 16)
OPEN = 0.7  # of the requests per second that the closed load reached
LONGEST = 32  # tokens of an answer


@dataclass(frozen=True)
class Answered:
    """A request as its client saw it: seconds until its first and its last text, and its tokens."""

    first: float
    latency: float
    tokens: int
    forwards: int


@contextmanager
def serving(model: str, size: int) -> Iterator[str]:
    """The address of an endpoint in a process of its own."""
    command = [sys.executable, "-m", "mars_demo", "serve", "--model", model, "--port", "0"]
    process = subprocess.Popen([*command, "--size", str(size)], stderr=subprocess.PIPE, text=True)
    try:
        yield process.stderr.readline().split(" at ")[1].split(". ")[0]
    finally:
        process.terminate()
        process.wait()


async def ask(client: httpx.AsyncClient, model: str, prompt: str) -> Answered:
    """
    Raises:
        httpx.HTTPStatusError: if the server refuses.
    """
    body = {"model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": LONGEST}
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    started, first, usage = time.perf_counter(), None, None
    async with client.stream("POST", "/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line.removeprefix("data: "))
            usage = chunk["usage"]
            if first is None and any(choice["delta"].get("content") for choice in chunk["choices"]):
                first = time.perf_counter() - started
    latency = time.perf_counter() - started
    return Answered(first or latency, latency, usage["completion_tokens"], usage["forwards"])


async def closed(
    client: httpx.AsyncClient, model: str, prompts: Sequence[str], clients: int, seconds: float
):
    """Each client asks again when it has been answered, until the time is over; all answers count."""
    asked, answered, end = itertools.cycle(prompts), [], time.perf_counter() + seconds

    async def one() -> None:
        while time.perf_counter() < end:
            answered.append(await ask(client, model, next(asked)))

    await asyncio.gather(*(one() for _ in range(clients)))
    return answered


async def opened(
    client: httpx.AsyncClient, model: str, prompts: Sequence[str], rate: float, seconds: float
):
    """Requests at random times, so many per second."""
    rng, asked, jobs, now = random.Random(1), itertools.cycle(prompts), [], 0.0
    started = time.perf_counter()
    while (now := now + rng.expovariate(rate)) < seconds or not jobs:
        await asyncio.sleep(max(0.0, started + now - time.perf_counter()))
        jobs.append(asyncio.create_task(ask(client, model, next(asked))))
    return await asyncio.gather(*jobs)


def measured(answered: Sequence[Answered], seconds: float) -> dict:
    tokens = sum(one.tokens for one in answered)
    per_token = [1000 * (one.latency - one.first) / max(1, one.tokens - 1) for one in answered]
    return {
        "requests": len(answered),
        "requests_per_second": len(answered) / seconds,
        "tokens_per_second": tokens / seconds,
        "tokens_per_forward": tokens / sum(one.forwards for one in answered),
        "first_token": load_test.percentiles([one.first for one in answered]),
        "ms_per_token": load_test.percentiles(per_token),
        "latency": load_test.percentiles([one.latency for one in answered]),
        "mean_latency": mean(one.latency for one in answered),
    }


async def loads(address: str, model: str, prompts: Sequence[str], seconds: float) -> dict:
    """The closed loads, the open one, and the service times of requests that were alone."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=600, limits=limits) as client:
        await closed(client, model, prompts, 1, 0.1)  # the model is loaded
        rows, alone = [], []
        for clients in AT_ONCE:
            started = time.perf_counter()
            answered = await closed(client, model, prompts, clients, seconds)
            rows.append({"clients": clients} | measured(answered, time.perf_counter() - started))
            alone = alone or answered
            say(rows[-1])
        rate = OPEN * max(row["requests_per_second"] for row in rows)
        started = time.perf_counter()
        answered = await opened(client, model, prompts, rate, seconds)
        arriving = {"arrivals_per_second": rate} | measured(answered, time.perf_counter() - started)
        say(arriving)
    service = [[round(one.first, 4), round(one.latency, 4)] for one in alone]
    return {"closed": rows, "open": arriving, "service": service}


def in_turns(checkpoint: Checkpoint, prompts: Sequence[str], request: Request) -> tuple[int, list[float]]:
    """One forward of each request after the other: tokens, and seconds until each one's first token."""
    started, tokens, first = time.perf_counter(), 0, []
    runs = [decode(checkpoint, prompt, request) for prompt in prompts]
    while runs:
        for run in list(runs):
            step = next(run)
            tokens += step.accepted
            if step.number == 1:
                first.append(time.perf_counter() - started)
            if step.stop:
                runs.remove(run)
    return tokens, first


def shared(checkpoint: Checkpoint, prompts: Sequence[str], request: Request) -> tuple[int, list[float]]:
    """All in one batch with the cursor cache: tokens, and seconds until each one's first token."""
    started, first = time.perf_counter(), {}
    done = decode_batch(checkpoint, prompts, request, size=len(prompts))
    for moved in done:
        for number in moved:
            first.setdefault(number, time.perf_counter() - started)
    return sum(run.tokens for run in done.runs), list(first.values())


def together(checkpoint: Checkpoint, prompts: Sequence[str], rounds: int) -> Iterator[dict]:
    """Both ways at each number of requests, with what forwards cost known to the turns, as on the page."""
    request = Request(max_new_tokens=LONGEST)
    known = costs.measure(checkpoint) if costs.is_measurable(checkpoint) else None
    ways = {"in turns": (in_turns, replace(request, costs=known)), "shared": (shared, request)}
    for work, asked in ways.values():
        work(checkpoint, prompts[:2], replace(asked, max_new_tokens=8))
    for count in AT_ONCE:
        rows = {name: {"seconds": [], "rates": [], "first": []} for name in ways}
        for number in range(rounds):
            asked = list(itertools.islice(itertools.cycle(prompts), number, number + count))
            for name, (work, settings) in ways.items():
                started = time.perf_counter()
                tokens, first = work(checkpoint, asked, settings)
                seconds = time.perf_counter() - started
                row = rows[name]
                row["rates"].append(tokens / seconds)
                row["seconds"].append(seconds)
                row["first"] += first
        for name, row in rows.items():
            found = {
                "requests": count,
                "way": name,
                "tokens_per_second": row["rates"],
                "seconds": row["seconds"],
                "first_token": load_test.percentiles(row["first"]),
            }
            print(
                f"  {count} at once, {name}: {results.ranged(row['rates'], 1)} tokens per second",
                flush=True,
            )
            yield found


def questions(model: str, count: int = 96) -> list[str]:
    """Held-out prompts: those that came with the model, or those of the built-in worlds."""
    path = ASSETS / model / "held-out.jsonl"
    if path.exists():
        return list(itertools.islice(distillation.prompts_from(str(path)), count))
    return [example.prompt for example in tasks.mixed(8)]


def say(row: dict) -> None:
    load = f"{row['clients']} clients" if "clients" in row else "open load"
    rates = (
        f"{row['requests_per_second']:.2f} requests and {row['tokens_per_second']:.0f} tokens per second"
    )
    print(
        f"  {load}: {rates}, first token p95 {row['first_token']['p95']:.2f} s",
        flush=True,
    )


def measure(model: str, size: int, seconds: float, rounds: int) -> dict:
    prompts = questions(model)
    print(model, flush=True)
    with serving(model, size) as address:
        found = asyncio.run(loads(address, model, prompts, seconds))
    checkpoint = load_checkpoint(model, dtype="auto")
    alone, batched = checkpoint.precision, checkpoint.dense.precision
    found |= {"together": list(together(checkpoint, prompts, rounds))}
    return {"model": model, "precision": {"in turns": alone, "shared": batched}} | found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", default=["mars-tiny", "mars-smollm2-135m"])
    parser.add_argument("--size", type=int, default=8, help="requests that share a forward of the server")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each load")
    parser.add_argument("--rounds", type=int, default=2, help="of the comparison")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    machine = results.machine()
    print(machine)
    rows = [
        measure(model, arguments.size, arguments.seconds, arguments.rounds) for model in arguments.models
    ]
    if arguments.output:
        known = {"size": arguments.size, "seconds": arguments.seconds, "max_new_tokens": LONGEST}
        results.write(arguments.output, machine, known | {"rounds": arguments.rounds, "models": rows})


if __name__ == "__main__":
    main()
