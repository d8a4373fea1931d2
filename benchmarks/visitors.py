"""The app under load: simultaneous visitors, and page loads during other visitors' runs.

    OMP_NUM_THREADS=1 python -m benchmarks.visitors [--visitors 50] [--races 5] [--output FILE]

The app runs in a process of its own on the same machine. Visitors load the page at once, without and with
runs going on. Then as many `gradio_client`s connect at once and request two answers each, with their own
prompts, modes and τ. Times include connecting, and every answer is compared with the decoder's own.
"""

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

import httpx
import psutil
from gradio_client import Client

from benchmarks import tables
from benchmarks.timing import percentiles
from mars_demo import tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.evaluation import results
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.names import TINY
from mars_demo.modes import BASELINE, RACED

FILE, MODEL = "visitors.json", TINY
TAUS, MAX_NEW_TOKENS = (1.0, 0.95, 0.8, 0.6), 64
SHARES = (0.5, 0.95)  # too few values for p99
OWN_FILES = re.compile(r"gradio_api/components/\w+\.(?:js|css)")  # URLs in the page
connect = partial(Client, verbose=False, analytics_enabled=False)


@contextmanager
def serving(model: str) -> Iterator[tuple[str, psutil.Process]]:
    """Serve one model in a process of its own; yield the URL and the process once it is warm."""
    settings = {"MARS_DEMO_CACHE": "", "GRADIO_ANALYTICS_ENABLED": "False", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "app.py", "--only", "--model", model]
    server = psutil.Popen(command, env=os.environ | settings, stdout=subprocess.PIPE, text=True)
    try:
        url = next(line.split()[-1] for line in server.stdout if "Running on" in line)
        threading.Thread(target=server.stdout.read, daemon=True).start()  # an unread pipe would fill
        with racing(url, 1):
            pass
        yield url, server
    finally:
        server.kill()


@contextmanager
def racing(url: str, runs: int) -> Iterator[None]:
    """Keep `runs` AR runs going within a `with` block, each at least once."""
    over = threading.Event()

    def run(client: Client) -> None:
        settings = {"mode": BASELINE, "max_new_tokens": MAX_NEW_TOKENS}
        while client.predict("Count to 90.", **settings, api_name="/generate") and not over.is_set():
            pass

    with ThreadPoolExecutor(max(runs, 1)) as pool:
        running = pool.map(run, [connect(url, httpx_kwargs={"timeout": 300}) for _ in range(runs)])
        try:
            yield
        finally:
            over.set()
        list(running)


def at_once(count: int, work: Callable) -> list:
    """Call `work` with each number below `count`, in separate threads."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


def loaded(url: str, server: psutil.Process, loads: int, races: int) -> dict:
    """Load the page, its config and its files `loads` times at once, during `races` runs."""

    def load(_: int) -> tuple[float, int]:
        started = time.perf_counter()
        with httpx.Client(base_url=url, timeout=300, headers={"accept-encoding": "gzip"}) as client:
            page = client.get("")
            names = sorted(set(OWN_FILES.findall(page.text)))
            answers = [page, *(client.get(name).raise_for_status() for name in ("config", *names))]
        return time.perf_counter() - started, sum(answer.num_bytes_downloaded for answer in answers)

    with racing(url, races):
        before = sum(server.cpu_times()[:2])
        seconds, sizes = zip(*at_once(loads, load))
        cpu = sum(server.cpu_times()[:2]) - before
    cpu_ms = None if races else 1000 * cpu / loads  # runs would count too
    times = percentiles(seconds, SHARES)
    return {"loads": loads, "races": races, "seconds": times, "bytes": max(sizes), "cpu_ms": cpu_ms}


def requests(checkpoint: Checkpoint, visitor: int) -> list[tuple[str, Request]]:
    """Return the requests of a visitor: prompts, each with a mode and τ."""
    draw = Random(visitor)
    modes = [BASELINE, *(mode.name for mode in RACED if mode.name in checkpoint.modes)]
    return [
        (example.prompt, Request(draw.choice(modes), draw.choice(TAUS), max_new_tokens=MAX_NEW_TOKENS))
        for example in islice(tasks.examples(None, "held-out", visitor), 2)
    ]


def visit(url: str, requests: list[tuple[str, Request]]) -> list[dict]:
    """Return the record of each answer with its TTFT and total seconds, or an error."""
    answers, started = [], time.perf_counter()
    try:
        client = connect(url)
        for prompt, request in requests:
            settings = {"mode": request.mode, "tau": request.tau, "max_new_tokens": request.max_new_tokens}
            job, first = client.submit(prompt, **settings, api_name="/generate"), None
            while not job.done():
                time.sleep(0.02)
                if first is None and any('"pass"' in text for text in job.outputs()):
                    first = time.perf_counter() - started
            now = time.perf_counter()
            answers.append({"record": job.result(), "ttft": first or now - started, "total": now - started})
            started = now
    except Exception as error:  # noqa: BLE001  any error means no answer
        answers += [{"error": f"{type(error).__name__}: {error}"}] * (len(requests) - len(answers))
    return answers


def answered(url: str, checkpoint: Checkpoint, visitors: int) -> dict:
    """Send the requests of all visitors at once; return counts of answers and right ones, and times."""
    sent = [requests(checkpoint, visitor) for visitor in range(visitors)]
    answers = at_once(visitors, lambda visitor: visit(url, sent[visitor]))
    pairs = [pair for own, results in zip(sent, answers) for pair in zip(own, results)]
    received = [(own, answer) for own, answer in pairs if "record" in answer]
    return {
        **{
            key: percentiles([answer[key] for _, answer in received] or [0.0], SHARES)
            for key in ("ttft", "total")
        },
        "visitors": visitors,
        "answers": len(pairs),
        "answered": len(received),
        "right": sum(is_right(checkpoint, *own, answer["record"]) for own, answer in received),
        "errors": sorted({answer["error"] for _, answer in pairs if "error" in answer}),
    }


def is_right(checkpoint: Checkpoint, prompt: str, request: Request, record: str) -> bool:
    run, own = Run.read(record.split("\n")), decode(checkpoint, prompt, request).finish()
    return (run.settings.prompt, run.token_ids) == (prompt, own.token_ids)


def measure(visitors: int, races: int, output: Path) -> None:
    checkpoint = load_checkpoint(MODEL)
    with serving(MODEL) as app:
        pages = [loaded(*app, visitors, runs) for runs in (0, races)]
        record = {"pages": pages, "answers": answered(app[0], checkpoint, visitors)}
    results.write(output, results.machine(checkpoint), record)


def table(file: str | Path = FILE) -> str:
    measured = results.read(file)
    pages = [
        {
            "page loads at once": page["loads"],
            "runs at the same time": page["races"],
            "seconds": tables.percentiles(page["seconds"]),
            "compressed size, kB": f"{page['bytes'] / 1000:.0f}",
            "CPU of the server per load, ms": page["cpu_ms"] and f"{page['cpu_ms']:.0f}",
        }
        for page in measured["pages"]
    ]
    one = measured["answers"]
    answers = {
        "visitors at once": one["visitors"],
        "answers, right": f"{one['answered']} of {one['answers']}, {one['right']}",
        "TTFT, s": tables.percentiles(one["ttft"]),
        "whole answer, s": tables.percentiles(one["total"]),
    }
    source = tables.source(measured, "p50 and p95")
    return f"{tables.shown(pages)}\n\n{tables.shown([answers])}{source}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--visitors", type=int, default=50)
    parser.add_argument("--races", type=int, default=5)
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
