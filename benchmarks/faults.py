"""Faulty clients: what the endpoint does with them, and what the others notice.

    pip install -r requirements-load.txt
    OMP_NUM_THREADS=1 python -m benchmarks.faults [--replicas 2] [--requests 300] [--output FILE]

Slow clients read a byte at a time, and another client sends bodies of 10 MB, while guidellm measures four
well-behaved clients. Clients leave in the middle of a streamed AR answer; the tokens in `/metrics` are then
the forwards that were computed for them. Many connections each send a request at once.
"""

import argparse
import asyncio
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from benchmarks import serving, tables, timing
from benchmarks.deployed import EXAMPLES, MODEL, SIZE, body, deployed, words
from mars_demo.evaluation import results
from mars_demo.limits import LIMITS
from mars_demo.models.load import load_checkpoint

FILE = "faults.json"
OTHERS = 4  # well-behaved clients
SLOW, BYTE_SECONDS = 16, 0.01  # slow clients, and seconds per byte
LARGE, LARGE_SECONDS = 10_000_000, 0.2  # bytes of a body, and seconds between two
LEAVING, READ = 20, 5  # clients that leave, and the chunks that they read before
AT_ONCE = (200, 400)  # connections
LONG = "Count to 90."  # a prompt with a long answer
TIMEOUT = httpx.Timeout(300)


def others(url: str, requests: int) -> dict[str, Any]:
    """Return the measurements of the well-behaved clients."""
    (row,) = serving.sweep(url, serving.POLICIES["τ = 0.95"], [OTHERS], requests)
    return {name: row[name] for name in ("requests", "failed", "requests_per_second", "ttft")}


def in_flight(url: str) -> float:
    """Return the number of requests in the batch and in the queue."""
    counts = metrics(url)
    return sum(counts[f"vllm:num_requests_{state}", ""] for state in ("running", "waiting"))


def metrics(url: str) -> Counter[tuple[str, str]]:
    """Return the values of `/metrics` by name and reason."""
    text = httpx.get(f"{url.removesuffix('/v1')}/metrics").text
    return Counter(
        {
            (sample.name, sample.labels.get("finished_reason", "")): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
    )


@contextmanager
def slow_clients(url: str) -> Iterator[None]:
    """Keep slow clients connected, each with a long answer that it reads a byte at a time."""
    over = threading.Event()
    content = json.dumps(body(LONG, stream=True)).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: slow\r\nContent-Length: {len(content)}\r\n"
    host, port = httpx.URL(url).host, httpx.URL(url).port

    def read(client: socket.socket) -> None:
        while not over.wait(BYTE_SECONDS) and client.recv(1):
            pass

    with ExitStack() as stack:
        threads = []
        for _ in range(SLOW):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.connect((host, port))
            client.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + content)
            threads.append(threading.Thread(target=read, args=[client]))
            threads[-1].start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()


@contextmanager
def large_bodies(url: str, server: psutil.Process) -> Iterator[dict[str, Any]]:
    """Send large bodies; yield their measurements, which are complete at the end."""
    over, found = threading.Event(), {"statuses": Counter(), "seconds": [], "memory": 0}
    before = server.memory_info().rss

    def send() -> None:
        while not over.wait(LARGE_SECONDS):
            started = time.perf_counter()
            answer = httpx.post(
                f"{url}/chat/completions",
                content=b" " * LARGE,
                headers={"Content-Type": "application/json"},
                timeout=TIMEOUT,
            )
            found["seconds"].append(time.perf_counter() - started)
            found["statuses"][answer.status_code] += 1
            found["memory"] = max(found["memory"], server.memory_info().rss - before)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def leave(url: str) -> tuple[int, float]:
    """Leave during a streamed AR answer; return the forwards and seconds until the server has noticed."""
    before, chunks = metrics(url), 0
    request = body(LONG, stream=True, mode="ar")
    with httpx.stream("POST", f"{url}/chat/completions", json=request, timeout=TIMEOUT) as answer:
        for line in answer.iter_lines():
            chunks += '"content": "' in line and '"content": ""' not in line
            if chunks == READ:
                break
    left = time.perf_counter()
    while ended(now := metrics(url)) == ended(before):
        pass
    tokens = ("vllm:generation_tokens_total", "")
    return int(now[tokens] - before[tokens] - chunks), time.perf_counter() - left


def ended(values: Counter) -> float:
    """Return how many requests have ended, by whatever reason."""
    return sum(value for (name, _), value in values.items() if name == "vllm:request_success_total")


async def connect(url: str, count: int) -> dict[str, Any]:
    """Send a request over each of `count` new connections at once; return the outcomes and seconds."""

    async def ask(client: httpx.AsyncClient, prompt: str) -> tuple[str, float]:
        started = time.perf_counter()
        try:
            answer = await client.post(f"{url}/chat/completions", json=body(prompt))
        except httpx.HTTPError as error:
            return type(error).__name__, 0.0
        late = " with Retry-After" if "Retry-After" in answer.headers else ""
        return f"{answer.status_code}{late}", time.perf_counter() - started

    prompts = [list(EXAMPLES)[index % len(EXAMPLES)] for index in range(count)]
    async with httpx.AsyncClient(timeout=TIMEOUT, limits=httpx.Limits(max_connections=count)) as client:
        outcomes = await asyncio.gather(*(ask(client, prompt) for prompt in prompts))
    seconds = [took for outcome, took in outcomes if outcome == "200"]
    return {
        "connections": count,
        "outcomes": Counter(outcome for outcome, _ in outcomes),
        "seconds": timing.percentiles(seconds),
    }


def measure(replicas: int, requests: int, output: Path) -> None:
    waiting = type(LIMITS).waiting.default
    with deployed(replicas, "--size", str(SIZE), waiting=waiting) as (url, server):
        serving.say("no fault")
        alone = others(url, requests)
        serving.say("slow clients")
        with slow_clients(url):
            beside_slow = others(url, requests)
            held = in_flight(url)
        serving.say("large bodies")
        with large_bodies(url, server) as large:
            beside_large = others(url, requests)
        serving.say("clients that leave")
        left = [leave(url) for _ in range(LEAVING)]
        serving.say(f"{tables.listed([str(count) for count in AT_ONCE])} connections")
        at_once = [asyncio.run(connect(url, count)) for count in AT_ONCE]
    record = {
        "replicas": replicas,
        "size": SIZE,
        "left": {"forwards": [forwards for forwards, _ in left], "seconds": [took for _, took in left]},
        "at_once": at_once,
        "alone": alone,
        "slow": {"held": held, "others": beside_slow},
        "large": large | {"seconds": timing.percentiles(large["seconds"]), "others": beside_large},
    }
    results.write(output, results.machine(load_checkpoint(MODEL)), record)


def table(file: str | Path = FILE) -> str:
    measured = results.read(file)
    if measured is None:
        return "Not measured yet; `python -m benchmarks.faults` measures it."
    left, slow, large = measured["left"], measured["slow"], measured["large"]
    milliseconds = [1000 * took for took in left["seconds"]]
    sent = sum(large["statuses"].values())
    rows = [
        ("none", "", _served(measured["alone"])),
        (
            f"{SLOW} clients read a byte per {1000 * BYTE_SECONDS:.0f} ms",
            f"once decoded, they hold {slow['held']:.0f} batch slots",
            _served(slow["others"]),
        ),
        (
            f"a client sends bodies of {LARGE / 1e6:.0f} MB, {1000 * LARGE_SECONDS:.0f} ms apart",
            f"{_counted(large['statuses'])} of {sent}, p95 {1000 * large['seconds']['p95']:.0f} ms; memory "
            f"+{large['memory'] / 1e6:.0f} MB",
            _served(large["others"]),
        ),
        (
            f"{len(milliseconds)} clients leave during an answer",
            f"slot free after {median(left['forwards']):.0f} forwards (at most {max(left['forwards'])}), "
            f"{median(milliseconds):.0f} ms (at most {max(milliseconds):.0f})",
            "",
        ),
        *(
            (
                f"{one['connections']} connections at once",
                f"{_counted(one['outcomes'])}; answers after {tables.percentiles(one['seconds'], '.1f')} s",
                "",
            )
            for one in measured["at_once"]
        ),
    ]
    columns = ("fault", "what happens", f"{OTHERS} other clients")
    notes = "Seconds and TTFT are p50, p95 and p99. The other clients ask for τ = 0.95."
    size = f"{words(measured['replicas'])}, batch {measured['size']} per replica"
    shown = tables.shown([dict(zip(columns, row)) for row in rows])
    return f"{shown}\n\n{notes}" + tables.source(measured, size)


def _served(row: dict) -> str:
    ttft = tables.percentiles(row["ttft"], ".0f")
    counts = f"{row['requests']} requests, {row['failed']} failed"
    return f"{row['requests_per_second']:.1f} requests per second, TTFT {ttft} ms; {counts}"


def _counted(outcomes: dict) -> str:
    return ", ".join(f"{count} × {outcome}" for outcome, count in sorted(outcomes.items()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--requests", type=int, default=300)
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
