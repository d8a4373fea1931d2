"""Decoding in a browser: the modes of the gallery's live page, one run at a time, in Chromium.

    python -m benchmarks.live [--rounds 5] [--max-new-tokens 256] [--output FILE]

The prompts are the models' first examples on the page. A run's time is that of its own forwards.
"""

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

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks import report
from mars_demo.core.assets import read_json
from mars_demo.core.names import CHAT
from mars_demo.core.trace import Run
from mars_demo.evaluation import results
from mars_demo.models.device import processor
from mars_demo.models.load import load_checkpoint
from mars_demo.static import live
from mars_demo.static.onnx_model import DESCRIPTION

FILE = "live.json"
OPTIONS = {"rounds": 5, "max_new_tokens": 256}
PROMPTS = {CHAT: 4}  # of a slow model; otherwise all
METHODS = {  # mode, τ, and whether windows are adaptive, as on the page
    "ar": ("ar", 1.0, False),
    "mars τ = 0.95": ("mars", 0.95, False),
    "mars τ = 0.95, adaptive": ("mars", 0.95, True),
    "lossless": ("lossless", 1.0, False),
    "lossless, adaptive": ("lossless", 1.0, True),
}

# Load a model in a worker and run races; return the lines of each.
RUN_RACES = """async ([worker, model, races]) => {
  const decoder = new Worker(worker, { type: "module" });
  const until = (end) => new Promise((resolve, reject) => {
    let lines = "";
    decoder.onmessage = ({ data }) => {
      if (data.error) reject(new Error(data.error));
      lines += data.lines ?? "";
      if (data[end]) resolve(lines);
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


def run_races(page: Page, url: str, model: str, races: list[dict]) -> list[str]:
    """Run races in a worker of a page's site; return the lines of each."""
    return page.evaluate(RUN_RACES, [f"{url}worker/worker.js", f"{url}models/{model}/", races])


def measure(rounds: int, max_new_tokens: int, output: Path) -> None:
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        files = Path(folder)
        live.collect(files, (load_checkpoint(model, dtype="float32") for model in live.MODELS))
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        rows = [row for one in live.MODELS for row in of_model(browser, files, one, rounds, max_new_tokens)]
        version = browser.version
        browser.close()
    record = {
        "max_new_tokens": max_new_tokens,
        "browser": f"Chromium {version.partition('.')[0]}",
        "threads": min(os.cpu_count(), 4),
        "rows": rows,
    }
    report.save(output, processor(), record)


def of_model(browser: Browser, files: Path, model: str, rounds: int, max_new_tokens: int) -> list[dict]:
    """Return the results of each method with a model of the live page's files."""
    examples = [example["prompt"] for example in read_json("prompts.json") if example["model"] == model]
    prompts = examples[: PROMPTS.get(model)]
    races = [
        {
            "prompt": prompt,
            "modes": [mode],
            "tau": tau,
            "maxNewTokens": max_new_tokens,
            "adaptive": adaptive,
        }
        for prompt in prompts
        for mode, tau, adaptive in METHODS.values()
    ]
    folder = files / "models" / model
    page = browser.new_page()
    with serving(files) as url:
        page.goto(f"{url}models/{model}/{DESCRIPTION}")
        warm_up = races[: len(METHODS)]
        answers = run_races(page, url, model, warm_up + races * rounds)[len(warm_up) :]
    page.close()
    downloads = [*folder.rglob("*"), *(files / "worker" / "runtime").iterdir()]
    facts = {
        "model": model,
        "dtype": json.loads((folder / DESCRIPTION).read_text("utf-8"))["dtype"],
        "megabytes": sum(path.stat().st_size for path in downloads) / 1e6,
        "prompts": len(prompts),
    }
    return [facts | row(name, answers[at :: len(METHODS)], len(prompts)) for at, name in enumerate(METHODS)]


def row(method: str, answers: list[str], prompts: int) -> dict:
    """Return the results of a method, whose answers come in rounds."""
    runs = [_run(lines) for lines in answers]
    return {
        "method": method,
        "tokens": sum(run.tokens for run in runs[:prompts]),
        "forwards": sum(run.forwards for run in runs[:prompts]),
        "seconds": [
            sum(run.seconds for run in runs[at : at + prompts]) for at in range(0, len(runs), prompts)
        ],
    }


def _run(lines: str) -> Run:
    records = [json.loads(line) for line in lines.splitlines()]
    for one in records:
        del one["lane"]
    return Run.read(map(json.dumps, records))


def table(file: str | Path = FILE) -> str:
    measured = results.read_results(file)
    base = {one["model"]: one["seconds"] for one in measured["rows"] if one["method"] == "ar"}
    rows = [
        {
            "model": f"{one['model']}, {one['dtype']}",
            "download, MB": f"{one['megabytes']:.0f}",
            "method": one["method"],
            "tokens per forward": report.per_forward(one),
            "tokens per second": f"{one['tokens'] / median(one['seconds']):.0f}",
            "faster than ar": report.faster(one["seconds"], base[one["model"]]),
        }
        for one in measured["rows"]
    ]
    where = f"{measured['browser']}, WebAssembly, {measured['threads']} threads"
    size = f"at most {measured['max_new_tokens']} tokens each"
    return report.shown(rows) + report.source(measured, where, size, report.rounds(measured))


if __name__ == "__main__":
    report.run()
