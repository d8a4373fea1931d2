"""Decoding in a browser: the modes of the gallery's live page, one run at a time, in Chromium.

    python -m benchmarks.live [--rounds 5] [--max-new-tokens 256] [--output FILE]

The prompts are mars-tiny's examples on the page. A run's time is that of its own forwards. The first token
is timed from the request to the first accepted tokens, prefill included.
"""

import argparse
import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, sync_playwright

from benchmarks import tables
from mars_demo.assets import read_json
from mars_demo.cli.gallery import MODELS
from mars_demo.decoding.trace import Run
from mars_demo.evaluation import results
from mars_demo.models.load import load_checkpoint
from mars_demo.ui import live

FILE = "live.json"
METHODS = {"ar": ("ar", 1.0), "mars τ = 0.95": ("mars", 0.95), "lossless": ("lossless", 1.0)}

# Load a model in a worker and run races; return the lines of each, and the milliseconds to the first pass.
RUN_RACES = """async ([worker, model, races]) => {
  const decoder = new Worker(worker, { type: "module" });
  const until = (end, begun = performance.now()) => new Promise((resolve, reject) => {
    let [lines, first] = ["", null];
    decoder.onmessage = ({ data }) => {
      if (data.error) reject(new Error(data.error));
      lines += data.lines ?? "";
      if (lines.includes('"pass":')) first ??= performance.now() - begun;
      if (data[end]) resolve([lines, first]);
    };
  });
  const loaded = until("ready");
  decoder.postMessage({ load: { url: model } });
  await loaded;
  const results = [];
  for (const race of races) {
    const over = until("over");
    decoder.postMessage({ race });
    results.push(await over);
  }
  decoder.terminate();
  return results;
}"""


class Files(SimpleHTTPRequestHandler):
    """A plain file server with the headers that threads in a browser need."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript"}

    def end_headers(self):
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def do_GET(self):
        if self.path == "/favicon.ico":  # browsers want one for files that are no pages
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *_):
        pass


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder as plain files; yield its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def run_races(page: Page, url: str, model: str, races: list[dict]) -> list[tuple[str, float]]:
    """Run races in a worker of a page's site; return the lines of each, and the ms to the first pass."""
    return page.evaluate(RUN_RACES, [f"{url}worker/worker.js", f"{url}models/{model}/", races])


def measure(rounds: int, max_new_tokens: int, output: Path) -> None:
    [model] = MODELS
    prompts = [example["prompt"] for example in read_json("prompts.json") if example["model"] == model]
    settings = {"criterion": "probability", "maxNewTokens": max_new_tokens}
    races = [
        {"prompt": prompt, "modes": [mode], "tau": tau} | settings
        for prompt in prompts
        for mode, tau in METHODS.values()
    ]
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        files = Path(folder)
        size = live.collect(files, [load_checkpoint(model, dtype="float32")])
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        with serving(files) as url:
            page.goto(f"{url}models/{model}/decoder.json")
            warm_up = races[: len(METHODS)]
            answers = run_races(page, url, model, warm_up + races * rounds)[len(warm_up) :]
        version = browser.version
        browser.close()
    record = {
        "prompts": len(prompts),
        "max_new_tokens": max_new_tokens,
        "megabytes": size / 1e6,
        "browser": f"Chromium {version.partition('.')[0]}",
        "threads": min(os.cpu_count(), 4),
        "rows": [row(name, answers[at :: len(METHODS)], len(prompts)) for at, name in enumerate(METHODS)],
    }
    results.write(output, f"{model}, float32, {results.processor()}", record)


def row(method: str, answers: list[tuple[str, float]], prompts: int) -> dict:
    """Return the results of a method, whose answers come in rounds."""
    runs = [_run(lines) for lines, _ in answers]
    return {
        "method": method,
        "tokens": sum(run.tokens for run in runs[:prompts]),
        "forwards": sum(run.forwards for run in runs[:prompts]),
        "seconds": [_seconds(runs[at : at + prompts]) for at in range(0, len(runs), prompts)],
        "first_ms": median(first for _, first in answers),
    }


def _run(lines: str) -> Run:
    """Return the only run of a race's lines."""
    records = [json.loads(line) for line in lines.splitlines()]
    for one in records:
        del one["lane"]
    return Run.read(map(json.dumps, records))


def _seconds(runs: list[Run]) -> float:
    return sum(run.seconds for run in runs)


def table(file: str | Path = FILE) -> str:
    measured = results.read(file)
    base = measured["rows"][0]["seconds"]
    rows = [
        {
            "method": one["method"],
            "tokens per forward": tables.per_forward(one),
            "tokens per second": f"{one['tokens'] / median(one['seconds']):.0f}",
            "first token, ms": f"{one['first_ms']:.0f}",
            "faster than ar": tables.faster(one["seconds"], base),
        }
        for one in measured["rows"]
    ]
    size = f"{measured['prompts']} prompts, at most {measured['max_new_tokens']} tokens each"
    where = f"{measured['browser']}, WebAssembly, {measured['threads']} threads"
    page = f"{measured['megabytes']:.0f} MB with the libraries"
    return tables.shown(rows) + tables.source(measured, where, page, size, tables.rounds(measured))


def main() -> None:
    """Parse the arguments, measure, and print the table."""
    parser = argparse.ArgumentParser(description="Measure decoding in a browser.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--max-new-tokens", type=int, default=256)
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
