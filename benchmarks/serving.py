"""The endpoint under load: requests per second, TTFT and TPOT, measured by guidellm.

    pip install -r requirements-load.txt
    OMP_NUM_THREADS=1 python -m benchmarks.serving [--replicas 0 1 2] [--streams 1 4 16 64] [--output FILE]

`mars_demo serve` runs on the same machine, with 0 replicas in one process without Ray. First, so many
clients each send their next request when one is answered. Then the largest deployment gets a trace in which
arrivals do not wait for answers: a load of 0.7, with a burst of 3 in its middle third. Load 1 is the
requests per second of AR with the most clients. The requests are held-out prompts of the built-in tasks,
whose answers are graded; the policies take turns, in the trace seed by seed.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psutil

from benchmarks import tables, timing
from benchmarks.deployed import EXAMPLES, MODEL, SIZE, deployed, words
from mars_demo import tasks
from mars_demo.evaluation import results
from mars_demo.evaluation.task_sets import MAX_NEW_TOKENS
from mars_demo.models.load import load_checkpoint

FILE = "serving.json"
BASELINE, CONTROLLED = "AR", "controller, τ 0.8 to 1"
POLICIES = {  # the fields of a request; the server has the controller
    BASELINE: {"mode": "ar"},
    "τ = 0.95": {"mode": "mars", "tau": 0.95},
    CONTROLLED: {"mode": "mars"},
}
STEADY, BURST = 0.7, 3.0
ROUNDS = 4  # requests of each client, at least
LEAD = 1.0  # seconds before a trace begins
LONGEST = 300  # seconds of a run of guidellm


def guidellm(url: str, fields: Mapping, profile: Mapping, limit: Mapping, rows: Sequence[Mapping]) -> list:
    """Run guidellm against the endpoint; return its benchmarks, each with its CPU seconds as `cpu`.

    fields: of each request's body. profile, limit, rows: guidellm's profile, constraint and data.

    Raises:
        RuntimeError: if guidellm fails or hangs, with its last message.
    """
    backend = {
        "kind": "openai_http",
        "target": url,
        "model": MODEL,
        "validate_backend": False,
        "max_tokens": MAX_NEW_TOKENS,
        "extras": {"body": fields},
    }
    with TemporaryDirectory() as name:
        folder = Path(name)
        data, output, log = folder / "data.jsonl", folder / "report.json", folder / "log"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        scenario = {
            "backend": backend,
            "profile": profile,
            "constraints": [limit],
            "data": [{"kind": "json_file", "path": str(data)}],
            "outputs": [{"kind": "json", "path": str(output)}],
        }
        (folder / "scenario.json").write_text(json.dumps({"spec": scenario}), "utf-8")
        clock, cpu = _run(["run", "-c", "scenario.json", "--disable-console"], folder, log)
        benchmarks = json.loads(output.read_text("utf-8"))["benchmarks"]
    for one in benchmarks:
        start, end = np.interp([one["start_time"], one["end_time"]], clock, cpu)
        one["cpu"] = float(end - start)
    return benchmarks


def _run(arguments: Sequence[str], folder: Path, log: Path) -> tuple[list[float], list[float]]:
    """Run guidellm with one worker; return times, and the CPU seconds of its processes up to each."""
    command = [sys.executable, "-m", "guidellm", *arguments]
    # With the usual poll interval, a busy machine can lose the last answer of a run.
    settings = {"GUIDELLM__MAX_WORKER_PROCESSES": "1", "GUIDELLM__MP_POLL_INTERVAL": "1"}
    clock, cpu, own = [], [], {}
    end = time.monotonic() + LONGEST
    with log.open("wb") as file:
        process = psutil.Popen(
            command, cwd=folder, env=os.environ | settings, stdout=file, stderr=subprocess.STDOUT
        )
        while process.poll() is None:
            with suppress(psutil.NoSuchProcess):
                for one in (process, *process.children(recursive=True)):
                    own[one.pid] = sum(one.cpu_times()[:2])
                    if time.monotonic() > end:
                        one.kill()
            clock.append(time.time())
            cpu.append(sum(own.values()))
            time.sleep(0.5)
    if process.returncode:
        lines = log.read_text("utf-8", errors="replace").strip().splitlines()
        raise RuntimeError(f"guidellm failed: {lines[-1] if lines else process.returncode}")
    return clock, cpu


def measured(benchmark: Mapping, clients: int = 0) -> dict[str, Any]:
    """Return the measurements of one benchmark of guidellm's report. Times are milliseconds.

    TTFT counts from the planned arrival. TPOT is guidellm's inter-token latency: the time from the first to
    the last token of an answer, by the tokens after the first.

    clients: how many each send their next request when one is answered; their first ones do not count.
    """
    answered = sorted(benchmark["requests"]["successful"], key=lambda one: one["request_start_time"])
    counted = answered[clients:]
    planned = benchmark["config"]["strategy"]["type_"] == "trace"
    late = [1000 * planned * one["request_dispatch_delay"] for one in counted]
    return {
        "requests": len(counted),
        "failed": len(benchmark["requests"]["errored"] or []),
        "seconds": counted[-1]["request_start_time"] - counted[0]["request_start_time"],
        "ttft": [one["time_to_first_token_ms"] + delay for one, delay in zip(counted, late)],
        "tpot": [one["inter_token_latency_ms"] for one in counted if one["output_tokens"] > 1],
        "late": max(late),
        "right": sum(is_right(one) for one in counted),
        "generator": benchmark["cpu"] / benchmark["duration"],
    }


def is_right(answered: Mapping) -> bool:
    """Return whether an answer of guidellm's report is right; a truncated one is wrong."""
    (message,) = json.loads(answered["request_args"])["body"]["messages"]
    example = EXAMPLES[message["content"][0]["text"]]
    whole = answered["output_tokens"] < MAX_NEW_TOKENS
    return whole and tasks.task(example.task).grade(example, answered["output"])


def sweep(url: str, fields: Mapping, streams: Sequence[int], requests: int) -> list[dict]:
    """Return the measurements with so many simultaneous clients, of at least `requests` requests each."""
    counts = [max(requests, ROUNDS * clients) for clients in streams]
    rows = [{"prompt": prompt} for prompt in islice(cycle(EXAMPLES), max(counts))]
    profile = {"kind": "concurrent", "streams": [*streams]}
    # A limit on the seconds can make guidellm wait forever for requests that it has cancelled.
    limit = {"kind": "max_requests", "count": counts}
    return [
        {"streams": clients} | summary([measured(one, clients)])
        for clients, one in zip(streams, guidellm(url, fields, profile, limit, rows), strict=True)
    ]


def summary(parts: Sequence[Mapping]) -> dict[str, Any]:
    """Return the measurements of several runs together, with percentiles over all their requests.

    Requests per second are those sent; clients that wait for answers send as many as are answered.
    """
    requests = sum(part["requests"] for part in parts)
    return {
        "requests": requests,
        "failed": sum(part["failed"] for part in parts),
        "requests_per_second": (requests - len(parts)) / sum(part["seconds"] for part in parts),
        "ttft": timing.percentiles([value for part in parts for value in part["ttft"]]),
        "tpot": timing.percentiles([value for part in parts for value in part["tpot"]]),
        "late": max(part["late"] for part in parts),
        "accuracy": sum(part["right"] for part in parts) / requests,
        "generator": max(part["generator"] for part in parts),
    }


def arrivals(capacity: float, seconds: float, seed: int) -> Iterator[float]:
    """Yield the arrival times of a trace, with `capacity` requests per second at load 1."""
    rng, now = random.Random(seed), 0.0
    for third, load in enumerate((STEADY, BURST, STEADY), start=1):
        until = third * seconds / 3
        while (now := now + rng.expovariate(capacity * load)) < until:
            yield now
        now = until


def replay(url: str, fields: Mapping, times: Sequence[float]) -> dict:
    """Return guidellm's benchmark of requests at these times."""
    rows = [
        {"prompt": prompt, "relative_timestamp": LEAD + at} for at, prompt in zip(times, cycle(EXAMPLES))
    ]
    limit = {"kind": "max_requests", "count": len(rows)}
    profile = {"kind": "replay", "schedule_turn": "timestamp"}
    (benchmark,) = guidellm(url, fields, profile, limit, rows)
    return benchmark


def drawn(benchmark: Mapping) -> list[list[float]]:
    """Return the seconds of each request's arrival, first token and end, for the plot."""
    moments = [one["info"]["timings"] for one in benchmark["requests"]["successful"]]
    origin = benchmark["scheduler_metrics"]["start_time"] + LEAD
    keys = ("targeted_start", "first_token_iteration", "request_end")
    return sorted([round(one[key] - origin, 3) for key in keys] for one in moments)


def bursts(url: str, capacity: float, seconds: float, seeds: Sequence[int]) -> list[dict]:
    """Replay the traces with every policy; return the measurements by policy."""
    replays: dict[str, list[dict]] = {policy: [] for policy in POLICIES}
    for seed in seeds:
        times = list(arrivals(capacity, seconds, seed))
        for policy, fields in POLICIES.items():
            say(f"burst of {len(times)} requests, seed {seed}, {policy}")
            replays[policy].append(replay(url, fields, times))
    rows = []
    for policy, benchmarks in replays.items():
        parts = [measured(one) for one in benchmarks]
        p95 = [timing.percentiles(part["ttft"])["p95"] for part in parts]
        rows.append({"policy": policy} | summary(parts) | {"p95": p95, "picture": drawn(benchmarks[0])})
    return rows


def say(step: str) -> None:
    print(f"{time.strftime('%X')} {step}", file=sys.stderr, flush=True)


def measure(
    replicas: list[int], streams: list[int], requests: int, burst: float, seeds: list[int], output: Path
) -> None:
    tool = f"guidellm {metadata.version('guidellm')}"
    sweeps, traces, most = [], {}, max(replicas)
    for count in replicas:
        say(f"starting {words(count)}")
        with deployed(count, "--size", str(SIZE), "--tau", "0.8-1.0") as (url, _):
            for policy, fields in POLICIES.items():
                say(f"{words(count)}, {policy}: {listed(streams)}")
                for row in sweep(url, fields, streams, requests):
                    sweeps.append({"replicas": count, "deployment": words(count), "policy": policy} | row)
            if count == most:
                capacity = rate(sweeps, count, BASELINE)
                traces = {"capacity": capacity, "rows": bursts(url, capacity, burst, seeds)}
    settings = {"size": SIZE, "burst": burst, "seeds": seeds, "tool": tool}
    record = settings | {"sweeps": sweeps, "bursts": {"deployment": words(most)} | traces}
    results.write(output, results.machine(load_checkpoint(MODEL)), record)


def listed(streams: Sequence[int]) -> str:
    return f"{tables.listed([str(clients) for clients in streams])} clients"


def rate(sweeps: Sequence[Mapping], replicas: int, policy: str) -> float:
    """Return the requests per second of a policy with the most clients."""
    rows = [row for row in sweeps if (row["replicas"], row["policy"]) == (replicas, policy)]
    return max(rows, key=lambda row: row["streams"])["requests_per_second"]


def table(file: str | Path = FILE) -> str:
    measured = results.read(file)
    if measured is None:
        return "Not measured yet; `python -m benchmarks.serving` measures it."
    sweeps, trace = measured["sweeps"], measured["bursts"]
    rows = [
        {"deployment": row["deployment"], "policy": row["policy"], "clients": row["streams"]}
        | {"requests per second": f"{row['requests_per_second']:.1f}"}
        | _cells(row)
        for row in sweeps
    ]
    base = next(row["p95"] for row in trace["rows"] if row["policy"] == BASELINE)
    burst = [
        {"burst": trace["deployment"], "policy": row["policy"]}
        | _cells(row)
        | {"p95 TTFT, shorter than AR's": results.ranged(results.ratios(row["p95"], base), unit="×")}
        for row in trace["rows"]
    ]
    failed = sum(row["failed"] for row in (*sweeps, *trace["rows"]))
    late = max(row["late"] for row in trace["rows"])
    notes = (
        f"{_scaling(sweeps)}TTFT and TPOT are p50, p95 and p99; with fewer than 200 requests, p99 depends "
        "on one or two of them. TPOT is the time from the first to the last token, divided by the tokens "
        "after the first. The CPU time of the load generator is a share of one core; it runs on the same "
        f"cores as the replicas. In the burst, it sent requests at most {late:.0f} ms late, which "
        f"counts in TTFT. The first request of each client is not counted. Failed requests: {failed}."
    )
    size = (
        f"batch {measured['size']} per replica · burst of {measured['burst']:g} s, "
        f"{len(measured['seeds'])} seeds, load 1 is {trace['capacity']:.1f} requests per second"
    )
    shown = f"{tables.shown(rows)}\n\n{tables.shown(burst)}\n\n{notes}"
    return shown + tables.source(measured, measured["tool"], size)


def _cells(row: Mapping) -> dict[str, str | int]:
    return {
        "requests": row["requests"],
        "TTFT, ms": tables.percentiles(row["ttft"], ".0f"),
        "TPOT, ms": tables.percentiles(row["tpot"], ".1f"),
        "accuracy": f"{row['accuracy']:.1%}",
        "load generator, CPU": f"{row['generator']:.0%}",
    }


def _scaling(sweeps: Sequence[Mapping]) -> str:
    """Return how many times the requests of one replica two or more answer, with the most clients."""
    clients, most = max(row["streams"] for row in sweeps), max(row["replicas"] for row in sweeps)
    if most < 2 or not any(row["replicas"] == 1 for row in sweeps):
        return ""
    ratios = [
        f"{rate(sweeps, most, policy) / rate(sweeps, 1, policy):.2f}× ({policy})"
        for policy in dict.fromkeys(row["policy"] for row in sweeps)
    ]
    return f"Requests per second of {most} replicas over 1, {clients} clients: {', '.join(ratios)}. "


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replicas", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--burst", type=float, default=9.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
