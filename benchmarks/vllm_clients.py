"""Many clients of vLLM with the plugin for minutes: wrong answers, and requests that stay.

    python -m benchmarks.vllm_clients --python .vllm/bin/python [--clients 50] [--minutes 10]

Each client sends a prompt of the tiny models' tasks in a random mode, reads the answer or leaves in the
middle of it, and goes on. Right is what this project's decoder answers in float32.
"""

import random
import re
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai

from benchmarks import report
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
    "AR": Request("ar", max_new_tokens=400),
    "τ = 0.95": Request("mars", 0.95, max_new_tokens=400),
    "τ = 0.5": Request("mars", 0.5, max_new_tokens=400),
    "lossless": Request("ar", max_new_tokens=400),
}
EXTRA = {"AR": {"masks": 0}, "τ = 0.95": {"tau": 0.95}, "τ = 0.5": {"tau": 0.5}, "lossless": {}}


def measure(python: str, clients: int, minutes: float, output: Path) -> None:
    checkpoint, about, counts = load_checkpoint(MODEL, "cpu", "float32"), outline(MODEL), Counter()
    expected = {
        (mode, example.prompt): decode(checkpoint, example.prompt, request).finish().text
        for mode, request in MODES.items()
        for example in tasks.mixed(4)
    }

    def run(number: int) -> None:
        rng = random.Random(number)
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{PORT}/v1", api_key="none", timeout=300)
        while time.monotonic() < end:
            mode, prompt = rng.choice([*expected])
            leaves = rng.random() < LEAVE
            try:
                text = ask(client, prompt, EXTRA[mode], leaves)
                result = "left" if leaves else "right" if text == expected[mode, prompt] else "wrong"
            except openai.OpenAIError as error:
                result = type(error).__name__
            counts[mode, result] += 1

    flags = [*vllm_server.flags(about.block_size, SLOTS), "--dtype=float32", "--max-model-len=512"]
    with serving(python, MODEL, str(about.source), flags, PORT):
        end = time.monotonic() + 60 * minutes
        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(run, range(clients)))
        time.sleep(2)  # the last client may just have left
        staying = requests_in()
    rows = [{"mode": mode, "end": end, "count": count} for (mode, end), count in counts.items()]
    size = {"clients": clients, "minutes": minutes, "slots": SLOTS, "staying": staying}
    results.write(output, results.machine(checkpoint), size | {"rows": rows})


def ask(client: openai.OpenAI, prompt: str, extra: dict, leaves: bool) -> str:
    """Return the answer, or its beginning if the client leaves."""
    message = {"role": "user", "content": prompt}
    settings = {"model": MODEL, "messages": [message], "temperature": 0, "stream": True}
    text = ""
    with client.chat.completions.create(**settings, extra_body={"vllm_xargs": extra}) as stream:
        for chunk in stream:
            text += chunk.choices[0].delta.content or ""
            if leaves and text:
                break
    return text


def requests_in() -> float:
    """Return the number of requests that run or wait in the server."""
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics") as response:
        text = response.read().decode()
    return sum(map(float, re.findall(r"^vllm:num_requests_(?:running|waiting){.*} (\S+)$", text, re.M)))


def table(file: str | Path = FILE) -> str:
    """Return a sentence with the ends of the requests, and of those that stayed."""
    measured, ends = results.read(file), Counter()
    for row in measured["rows"]:
        ends[row["end"]] += row["count"]
    counts = ", ".join(f"{count} {end}" for end, count in ends.most_common())
    facts = f"{measured['clients']} clients, {measured['minutes']:g} minutes"
    said = (
        f"Answers: {counts}, {ends['wrong']} wrong. {measured['staying']:g} requests stayed in the server."
    )
    return said + report.source(measured, facts)


if __name__ == "__main__":
    report.run(measure, table, FILE, python=str, clients=50, minutes=10.0)
