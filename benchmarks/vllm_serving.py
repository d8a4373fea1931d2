"""Throughput and latency of vLLM with the plugin, with stock vLLM beside it.

    python -m benchmarks.vllm_serving --python .vllm/bin/python [--model NAME] [--output FILE]

`--python` is the Python of an environment with requirements-vllm.txt or requirements-vllm-cpu.txt, and
pandas. There is a server per engine, and vLLM's own `bench serve` sends prompts to them in turn, method by
method: so many at once, each when another is answered.
"""

import json
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle, islice, product
from pathlib import Path
from statistics import median

from benchmarks import report
from mars_demo.core.assets import ASSETS, read_json
from mars_demo.evaluation import results
from mars_demo.evaluation.task_sets import questions
from mars_demo.models.load import outline
from mars_demo.recipes import distillation
from mars_demo.serving import vllm_server

FILE = "vllm-serving.json"
OPTIONS = {"python": str, "model": "mars-smollm2-135m"}
CONCURRENCY = {1: 6, 4: 8, 8: 16, 16: 16, 32: 32}  # requests at once, and in all
MAX_NEW_TOKENS = 96
HELD_OUT = str(ASSETS / "mars-smollm2-135m" / "held-out.jsonl")
SLOTS = max(CONCURRENCY)
PORT = 8300
DRAFTS = 6  # of prompt lookup and parallel drafting
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
    f"parallel drafting, {DRAFTS} drafts": ("parallel", {}),
    "MARS, τ = 0.95": ("mars", {"tau": 0.95}),
    "MARS, τ by load, 0.8 to 1": ("mars", {"tau": "auto"}),
    "MARS, lossless": ("mars", {"tau": "lossless"}),
}


def engines(name: str, folder: str) -> dict[str, list[str]]:
    """Return the flags of each engine."""
    drafted = {"num_speculative_tokens": DRAFTS}
    ngram = {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4} | drafted
    parallel = {"method": "draft_model", "model": folder, "parallel_drafting": True} | drafted
    stock = f"--max-num-seqs={SLOTS}"
    return {
        "stock": [stock],
        "ngram": [stock, f"--speculative-config={json.dumps(ngram)}"],
        "parallel": [stock, f"--speculative-config={json.dumps(parallel)}"],
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


def prompts(model: str, count: int) -> dict[str, list[str]]:
    """Return the prompts of each set: the page's examples, held-out skills in turn, everyday ones."""
    examples = [
        one["prompt"] for one in read_json("prompts.json") if one.get("fast") and one["model"] == model
    ]
    skills = [question.prompt for question in questions("skills", count)]
    chat = islice(distillation.prompts_from(HELD_OUT), count)
    return {"examples": [*islice(cycle(examples), count)], "skills": skills, "chat": [*chat]}


def job(name: str, folder: str, port: int, extra: dict, file: Path, at_once: int, output: str) -> list[str]:
    """Return a command line of vLLM's load generator."""
    return [
        *("--backend", "openai-chat", "--endpoint", "/v1/chat/completions"),
        *("--base-url", f"http://127.0.0.1:{port}", "--model", name, "--tokenizer", folder),
        *("--dataset-name", "custom", "--dataset-path", str(file), "--disable-shuffle"),
        *("--custom-output-len", str(MAX_NEW_TOKENS), "--num-prompts", str(CONCURRENCY[at_once])),
        *("--max-concurrency", str(at_once), "--temperature", "0", "--disable-tqdm"),
        *("--extra-body", json.dumps({"vllm_xargs": extra} if extra else {})),
        *("--percentile-metrics", "ttft,tpot", "--metric-percentiles", "50,95"),
        *("--save-result", "--save-detailed"),
        *("--result-dir", str(file.parent), "--result-filename", output),
    ]


def measure(python: str, model: str, output: Path) -> None:
    sets = prompts(model, max(CONCURRENCY.values()))
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder, ports = vllm_server.servable(model, outline(model), work / "model"), {}
        for number, (engine, flags) in enumerate(engines(model, folder).items()):
            ports[engine] = PORT + number
            stack.enter_context(serving(python, model, folder, flags, PORT + number))
        jobs = []
        for title, at_once in product(sets, CONCURRENCY):
            file = work / f"{title}.jsonl"
            file.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in sets[title]))
            for number, (engine, extra) in enumerate(METHODS.values()):
                output_name = f"{title}-{at_once}-{number}.json"
                jobs.append(job(model, folder, ports[engine], extra, file, at_once, output_name))
        lines = "".join(json.dumps(one) + "\n" for one in jobs)
        call = vllm_server.server_process(python, folder, model, [])
        settings = {"env": call["env"] | SETTINGS, "text": True, "check": True}
        subprocess.run([python, "-c", CLIENT], input=lines, **settings)
        measured = {
            key: json.loads((work / f"{'-'.join(map(str, key))}.json").read_text("utf-8"))
            for key in product(sets, CONCURRENCY, range(len(METHODS)))
        }
    asked = [python, "-c", "import vllm; print(vllm.__version__)"]
    version = subprocess.run(asked, capture_output=True, **settings).stdout.split()[-1]
    size = {"model": model, "vllm": version, "max_new_tokens": MAX_NEW_TOKENS}
    rows = [
        row(title, at_once, [*METHODS][number], own, measured[title, at_once, 0])
        for (title, at_once, number), own in measured.items()
    ]
    report.save(output, f"{model}, bfloat16, {results.machine()}", size | {"rows": rows})


def row(title: str, at_once: int, method: str, own: dict, ar: dict) -> dict:
    """Return a method's figures, from the records of the load generator."""
    return {
        "set": title,
        "concurrency": at_once,
        "method": method,
        "requests": own["completed"],
        "tokens": own["total_output_tokens"],
        "seconds": [own["duration"]],
        "ttft": {share: [own[f"{share}_ttft_ms"]] for share in ("p50", "p95")},
        "tpot": {share: [own[f"{share}_tpot_ms"]] for share in ("p50", "p95")},
        "equal": sum(text == other for text, other in zip(own["generated_texts"], ar["generated_texts"])),
    }


def table(file: str | Path = FILE) -> str:
    """Return a row per method: its speed relative to AR by the requests at once, set by set."""
    measured = results.read_results(file)
    base = {(row["set"], row["concurrency"]): row for row in measured["rows"] if row["method"] == "AR"}
    speeds: dict[str, dict[str, list[str]]] = {}
    equal: dict[str, list[tuple[int, int]]] = {}
    for row in measured["rows"]:
        ar, method = base[row["set"], row["concurrency"]], row["method"]
        faster = median(report.ratios(row["seconds"], ar["seconds"])) * row["tokens"] / ar["tokens"]
        at_once = speeds.setdefault(method, {}).setdefault(f"{row['concurrency']} at once", [])
        at_once.append(f"{faster:.2f}")
        equal.setdefault(method, []).append((row["equal"], row["requests"]))
    rows = [
        {"as fast as AR": method}
        | {column: ", ".join(cells) for column, cells in speeds[method].items()}
        | {"answers equal to AR's": "{} of {}".format(*map(sum, zip(*equal[method])))}
        for method in speeds
        if method != "AR"
    ]
    facts = f"vLLM {measured['vllm']}, at most {measured['max_new_tokens']} tokens per answer"
    return report.shown(rows) + report.source(measured, facts)


if __name__ == "__main__":
    report.run()
