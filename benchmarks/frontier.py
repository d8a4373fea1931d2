"""Accuracy against tokens per forward by criterion and τ: the recorded sweeps that the page shows.

    python -m benchmarks.frontier [--models mars-tiny] [--limit 24] [--output assets/results/frontier.json]

Every bundled MARS model answers prompts as AR, losslessly, and with each criterion at each τ: the tiny
model those of its tasks, the chat model its skills. Finished answers are kept, so that an interrupted run
resumes; `--fresh` measures everything again.
"""

import argparse
import json
from pathlib import Path

from benchmarks import tables
from mars_demo.evaluation import journal, results
from mars_demo.evaluation.frontier import TAUS, Frontier
from mars_demo.evaluation.sweep import SIZE, Sweep, grid
from mars_demo.models.load import load_checkpoint
from mars_demo.models.names import CHAT, TINY

FILE = "frontier.json"
SETS = {TINY: ("worlds", 480), CHAT: ("skills", 272)}  # with the most prompts
LARGEST = 300_000  # characters of a sweep; a longer one leaves out wrong answers


def sweep(name: str, limit: int | None, size: int, taus: list[float], folder: Path | None) -> Frontier:
    """Measure one model, and print a line per finished point."""
    tasks, most = SETS[name]
    checkpoint = load_checkpoint(name, device="cpu")
    chosen = Sweep(
        checkpoint, tasks, min(limit or most, most), grid(checkpoint, taus=taus), size=size, folder=folder
    )
    for step in chosen:
        if step.point:
            print(f"{name}, {step.setting.title}: {step.point.accuracy:.1%} accuracy", flush=True)
    return chosen.frontier


def record(frontier: Frontier) -> dict:
    full = frontier.record()
    return full if len(json.dumps(full, ensure_ascii=False)) <= LARGEST else frontier.record(texts=False)


def measure(
    models: list[str], limit: int | None, taus: list[float], size: int, fresh: bool, output: Path
) -> None:  # fmt: skip
    """Sweep these models; sweeps of other models in `output` are kept."""
    sweeps = []
    if output.exists():
        written = json.loads(output.read_text("utf-8"))["sweeps"]
        sweeps = [one for one in written if one["model"] not in models]
    for name in models:
        sweeps.append(record(sweep(name, limit, size, taus, None if fresh else journal.folder())))
        results.write(output, results.machine(), {"sweeps": sweeps})


def table(file: str | Path = FILE) -> str:
    """Return a table per model with AR, lossless, and every criterion at some τ."""
    measured = results.read(file)
    shown = [_table(each) for each in map(Frontier.read, measured["sweeps"])]
    return "\n\n".join(shown) + tables.source(measured)


def _table(measured: Frontier) -> str:
    rows = [
        {
            "setting": point.setting.title,
            "accuracy": _between(point.accuracy, point.accuracy_interval, ".1%"),
            "tokens per forward": _between(
                point.tokens_per_forward, point.tokens_per_forward_interval, ".2f"
            ),
            "faster than AR": f"{measured.faster(point):.2f}×",
            "answers different from AR": sum(one.leaves is not None for one in point.outcomes),
        }
        for point in measured.points
        if point.setting.tau in (None, 0.95, 0.8, 0.5)
    ]
    areas = ", ".join(f"{criterion} {area:.0f}" for criterion, area in measured.aup().items())
    return (
        f"`{measured.model}`, {measured.title}, {len(measured.prompts)} prompts in batches of "
        f"{measured.size}, {measured.machine}:\n\n{tables.shown(rows)}\n\n"
        f"Accuracy under parallelism (AUP): {areas}."
    )


def _between(value: float, interval: tuple[float, float], form: str) -> str:
    return f"{value:{form}} ({interval[0]:{form}}–{interval[1]:{form}})"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--limit", type=int, help="most prompts per model")
    parser.add_argument("--taus", type=float, nargs="+", default=TAUS)
    parser.add_argument("--size", type=int, default=SIZE, help="sequences of a batch")
    parser.add_argument("--fresh", action="store_true", help="measure everything again, keep no answers")
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
