"""Many clients of vLLM with the plugin for minutes: wrong answers, and requests that stay.

    python -m benchmarks.vllm_clients --python .vllm/bin/python [--clients 50] [--minutes 10]

Each client sends a prompt of the tiny models' tasks in a random mode, reads the answer or leaves in the
middle of it, and goes on. Right is what this project's decoder answers in float32.
"""

import argparse
import random
import re
import threading
import time
import urllib.request
from collections import Counter
from dataclasses import replace
from pathlib import Path

import openai

from benchmarks import tables
from benchmarks.vllm_serving import PORT, serving
from mars_demo import tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.models.load import load_checkpoint, outline
from mars_demo.serving import vllm_server

FILE = "vllm-clients.json"
MODEL = "mars-tiny"
SLOTS = 16
LEAVE = 0.2  # the share of answers that their client leaves
MODES = {
    "AR": (Request("ar"), {"masks": 0}),
    "τ = 0.95": (Request("mars", 0.95), {"tau": 0.95}),
    "τ = 0.5": (Request("mars", 0.5), {"tau": 0.5}),
    "lossless": (Request("ar"), {}),
}


class Clients:
    """Clients in threads, and the counts of their answers by mode."""

    def __init__(self, expected: dict[tuple[str, str], str], seconds: float):
        self.expected, self.end = expected, time.monotonic() + seconds
        self.counts: Counter[tuple[str, str]] = Counter()

    def run(self, number: int) -> None:
        rng = random.Random(number)
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{PORT}/v1", api_key="none", timeout=300)
        while time.monotonic() < self.end:
            mode, prompt = rng.choice([*self.expected])
            leaves = rng.random() < LEAVE
            try:
                text = self.ask(client, prompt, MODES[mode][1], leaves)
            except openai.OpenAIError as error:
                self.counts[mode, type(error).__name__] += 1
                continue
            right = "right" if text == self.expected[mode, prompt] else "wrong"
            self.counts[mode, "left" if leaves else right] += 1

    def ask(self, client: openai.OpenAI, prompt: str, extra: dict, leaves: bool) -> str:
        message = {"role": "user", "content": prompt}
        settings = {"model": MODEL, "messages": [message], "temperature": 0, "stream": True}
        text = ""
        with client.chat.completions.create(**settings, extra_body={"vllm_xargs": extra}) as stream:
            for chunk in stream:
                text += chunk.choices[0].delta.content or ""
                if leaves and text:
                    break
        return text


def measure(python: str, clients: int, minutes: float, output: Path) -> None:
    checkpoint = load_checkpoint(MODEL, "cpu", "float32")
    prompts = [example.prompt for example in tasks.mixed(4)]
    expected = {
        (mode, prompt): decode(checkpoint, prompt, replace(request, max_new_tokens=400)).finish().text
        for mode, (request, _) in MODES.items()
        for prompt in prompts
    }
    about = outline(MODEL)
    flags = [*vllm_server.flags(about.block_size, SLOTS), "--dtype=float32", "--max-model-len=512"]
    with serving(python, MODEL, vllm_server.servable(MODEL, about), flags, PORT):
        all_ = Clients(expected, 60 * minutes)
        threads = [threading.Thread(target=all_.run, args=[number]) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(2)  # the last client may just have left
        staying = requests_in()
    rows = [{"mode": mode, "end": end, "count": count} for (mode, end), count in all_.counts.items()]
    size = {"clients": clients, "minutes": minutes, "slots": SLOTS, "staying": staying}
    results.write(output, results.machine(checkpoint), size | {"rows": rows})


def requests_in() -> float:
    """Return the number of requests that run or wait in the server."""
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics") as response:
        text = response.read().decode()
    return sum(map(float, re.findall(r"^vllm:num_requests_(?:running|waiting){.*} (\S+)$", text, re.M)))


def table(file: str | Path = FILE) -> str:
    """Return the ends of the requests by mode, and those that stayed."""
    measured = results.read(file)
    cells = {mode: {"mode": mode, "right": 0, "wrong": 0, "left": 0} for mode in MODES}
    for row in measured["rows"]:  # errors have columns of their own
        cells[row["mode"]][row["end"]] = row["count"]
    stay = f"{measured['staying']:g} requests stayed in the server after the last client"
    facts = f"{measured['clients']} clients, {measured['minutes']:g} minutes, {stay}"
    return tables.shown([*cells.values()]) + tables.source(measured, facts)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True, help="the Python of an environment that has vLLM")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=10)
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
