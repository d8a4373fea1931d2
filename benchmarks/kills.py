"""Replicas killed under load: lost answers, and the time until the deployment is whole again.

    OMP_NUM_THREADS=1 python -m benchmarks.kills [--kills 20] [--clients 16] [--output FILE]

Two replicas serve the model. Clients send held-out prompts without a pause, every other one streamed, and
compare each answer with the decoder's own. SIGKILL ends one replica; when all serve again, the next one. An
answer is lost if it is not whole, unless it had begun to stream and ends with an error.
"""

import argparse
import json
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import httpx
import psutil

from benchmarks import tables
from benchmarks.deployed import EXAMPLES, MODEL, body, deployed
from benchmarks.timing import percentiles
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.limits import LIMITS
from mars_demo.models.load import load_checkpoint
from mars_demo.progress import progress

FILE, REPLICAS = "kills.json", 2
PROMPTS, MODE = 64, "ar"  # the mode with the longest answers
PAUSE = 2.0  # seconds of load between the moment that all replicas answer and the next kill
OUTCOMES = ("whole", "error in the stream", "lost", "wrong")


def replicas(server: psutil.Process) -> list[psutil.Process]:
    """Return the processes of the replicas."""
    processes = server.children(recursive=True)
    return [process for process in processes if process.name().startswith("ray::ServeRepli")]


def answered(client: httpx.Client, url: str, prompt: str, text: str, stream: bool) -> str:
    """Send a prompt; return one of `OUTCOMES`, given the text of a whole answer."""
    request = body(prompt, mode=MODE, stream=stream)
    try:
        if not stream:
            response = client.post(f"{url}/chat/completions", json=request).raise_for_status()
            return "whole" if response.json()["choices"][0]["message"]["content"] == text else "wrong"
        with client.stream("POST", f"{url}/chat/completions", json=request) as response:
            events = [json.loads(line[6:]) for line in response.iter_lines() if line[6:7] == "{"]
    except httpx.HTTPError:
        return "lost"
    deltas = [event["choices"][0]["delta"].get("content", "") for event in events if "choices" in event]
    if "error" in events[-1]:
        return "error in the stream" if "".join(deltas) else "lost"
    return "whole" if "".join(deltas) == text else "wrong"


def load(url: str, texts: dict[str, str], over: threading.Event, seed: int) -> Counter:
    """Send prompts until `over` is set; count the outcomes of streamed (True) and other (False) answers."""
    draw, counts = random.Random(seed), Counter()
    with httpx.Client(timeout=300) as client:
        while not over.is_set():
            prompt, stream = draw.choice(list(texts)), bool(counts.total() % 2)
            counts[stream, answered(client, url, prompt, texts[prompt], stream)] += 1
    return counts


def killed(server: psutil.Process, draw: random.Random) -> float:
    """Kill a replica; return the seconds until as many as before serve."""
    victim, begun = draw.choice(replicas(server)), time.perf_counter()
    victim.kill()
    while sum(process != victim and serves(process) for process in replicas(server)) < REPLICAS:
        time.sleep(0.1)
    return time.perf_counter() - begun


def serves(replica: psutil.Process) -> bool:
    """Return whether a replica has loaded its model: then it listens for requests, besides for Ray."""
    try:
        ports = replica.net_connections("tcp")
    except psutil.Error:  # it has just ended
        return False
    return sum(port.status == psutil.CONN_LISTEN for port in ports) > 1


def measure(kills: int, clients: int, output: Path) -> None:
    checkpoint = load_checkpoint(MODEL, device="cpu")
    request = Request(mode=MODE, max_new_tokens=LIMITS.answer)
    texts = {
        prompt: decode(checkpoint, prompt, request).finish().text for prompt in islice(EXAMPLES, PROMPTS)
    }
    draw, over, seconds = random.Random(0), threading.Event(), []
    with deployed(REPLICAS) as (url, server), ThreadPoolExecutor(clients) as pool:
        loads = [pool.submit(load, url, texts, over, seed) for seed in range(clients)]
        try:
            for _ in progress(range(kills), kills, "killing replicas", "kill"):
                time.sleep(PAUSE)
                seconds.append(killed(server, draw))
            time.sleep(PAUSE)
        finally:
            over.set()
        counts = sum((load.result() for load in loads), Counter())
    answers = {
        name: {outcome: counts[stream, outcome] for outcome in OUTCOMES}
        for name, stream in (("streamed", True), ("whole", False))
    }
    record = {
        "kills": kills,
        "replicas": REPLICAS,
        "clients": clients,
        "seconds": seconds,
        "answers": answers,
    }
    results.write(output, results.machine(checkpoint), record)


def table(file: str | Path = FILE) -> str:
    if (measured := results.read(file)) is None:
        return "Not measured yet; `python -m benchmarks.kills` measures it."
    rows = [
        {
            "answers": {"streamed": "streamed", "whole": "not streamed"}[name],
            "all": sum(counts.values()),
            "whole and right": counts["whole"],
            "begun, then an error in the stream": counts["error in the stream"],
            "lost": counts["lost"],
            "wrong": counts["wrong"],
        }
        for name, counts in measured["answers"].items()
    ]
    again = tables.percentiles(percentiles(measured["seconds"], (0.5, 0.95)), ".1f")
    summary = f"{measured['kills']} kills; seconds until all replicas serve again, p50 and p95: {again}."
    source = f"{measured['replicas']} replicas, {measured['clients']} clients"
    return f"{tables.shown(rows)}\n\n{summary}" + tables.source(measured, source)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--clients", type=int, default=16)
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
