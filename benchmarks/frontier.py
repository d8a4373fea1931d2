"""Accuracy against tokens per forward by criterion and τ: the recorded sweeps that the page shows.

    python -m benchmarks.frontier [--models mars-tiny] [--limit 24] [--output assets/results/frontier.json]

Every bundled MARS model answers prompts as AR, losslessly, and with each criterion at each τ: the tiny
model those of its tasks, the chat model its skills.
"""

import json
from dataclasses import replace
from pathlib import Path

from benchmarks import report
from mars_demo.core.acceptance import CRITERIA
from mars_demo.core.names import CHAT, TINY
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import TAUS, Frontier
from mars_demo.evaluation.sweep import sweep
from mars_demo.evaluation.task_sets import MOST
from mars_demo.models.load import load_checkpoint

FILE = "frontier.json"
SETS = {TINY: ("tasks", 480), CHAT: ("skills", 272)}  # with the most prompts
SIZE = 32  # sequences of a batch; on two cores more are hardly faster
OPTIONS = {"models": [*SETS], "limit": MOST, "taus": [*TAUS], "size": SIZE}
LARGEST = 300_000  # characters of a sweep; a longer one leaves out wrong answers


def measured(name: str, limit: int, size: int, taus: list[float]) -> Frontier:
    """Measure one model, and print a line per finished point."""
    prompts, most = SETS[name]
    checkpoint = load_checkpoint(name, device="cpu")
    shown = 0
    for frontier, _ in sweep(checkpoint, prompts, min(limit, most), [*CRITERIA], taus, size):
        for point in frontier.points[shown:]:
            print(f"{name}, {point.setting.title}: {point.accuracy:.1%} accuracy", flush=True)
        shown = len(frontier.points)
    return frontier


def record(frontier: Frontier) -> dict:
    full = frontier.record()
    return full if len(json.dumps(full, ensure_ascii=False)) <= LARGEST else frontier.record(texts=False)


def measure(models: list[str], limit: int, taus: list[float], size: int, output: Path) -> None:
    """Sweep these models; sweeps of other models in `output` are kept."""
    sweeps, origin = [], report.provenance()  # before the first sweep changes a file of the repository
    if output.exists():
        written = json.loads(output.read_text("utf-8"))["sweeps"]
        sweeps = [one for one in written if one["model"] not in models]
    for name in models:
        frontier = measured(name, limit, size, taus)
        sweeps.append(record(replace(frontier, **origin)))
        report.write(output, {"sweeps": sweeps})


def table(file: str | Path = FILE) -> str:
    """Return a table per model with AR, lossless, and every criterion at some τ."""
    sweeps = results.read_results(file)["sweeps"]
    return "\n\n".join(_table(Frontier.read(sweep)) for sweep in sweeps)


def _table(measured: Frontier) -> str:
    """Return the table of one model: τ = 0.95, and for `probability` the lowest τ too."""
    lowest = min(point.setting.tau or 1 for point in measured.points)
    rows = [
        {name: text for name, text in measured.texts(point).items() if name != "answers per second"}
        for point in measured.points
        if point.setting.tau in (None, 0.95)
        or (point.setting.criterion, point.setting.tau) == ("probability", lowest)
    ]
    prompts = f"{len(measured.prompts)} prompts in batches of {measured.size}"
    title = f"`{measured.model}`, {measured.title}, {prompts}:"
    return f"{title}\n\n{report.shown(rows)}{report.source(vars(measured))}"


if __name__ == "__main__":
    report.run()
