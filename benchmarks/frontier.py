"""What a lower τ buys and costs, by criterion: the sweeps that the page shows before anything is measured.

    python -m benchmarks.frontier [--models mars-tiny] [--limit 24] [--output assets/results/frontier.json]

Every bundled MARS model answers prompts as AR, losslessly, and with each criterion at each τ: the tiny
model those of its worlds, the chat model its skills. Answers are kept as they are
finished, so a run that was cut goes on where it was; `--fresh` measures everything again.
"""

import argparse
import json
from pathlib import Path

from benchmarks import tables
from mars_demo import markdown
from mars_demo.evaluation import journal, paper_tables, results
from mars_demo.evaluation.frontier import TAUS, Frontier
from mars_demo.evaluation.sweep import SIZE, Sweep, grid
from mars_demo.models.load import load_checkpoint

FILE = "frontier.json"
SETS = {"mars-tiny": ("worlds", 480), "mars-smollm2-135m": ("skills", 255)}  # and prompts at most
LARGEST = 300_000  # characters of a sweep; wrong answers are left out of a longer one


def sweep(name: str, limit: int | None, size: int, taus: list[float], folder: Path | None) -> Frontier:
    """Measure one model, with a line per point as it is finished."""
    tasks, most = SETS[name]
    checkpoint = load_checkpoint(name, device="cpu")
    chosen = Sweep(
        checkpoint, tasks, min(limit or most, most), grid(checkpoint, taus=taus), size=size, folder=folder
    )
    for step in chosen:
        if step.point:
            print(f"{name}, {step.setting.title}: {step.point.accuracy:.1%} right", flush=True)
    return chosen.frontier


def record(frontier: Frontier) -> dict:
    full = frontier.record()
    return full if len(json.dumps(full, ensure_ascii=False)) <= LARGEST else frontier.record(texts=False)


def measure(
    models: list[str], limit: int | None, taus: list[float], size: int, fresh: bool, output: Path
) -> None:  # fmt: skip
    """Sweep these models; the sweeps of others that `output` holds stay there."""
    sweeps = []
    if output.exists():
        written = json.loads(output.read_text("utf-8"))["sweeps"]
        sweeps = [one for one in written if one["model"] not in models]
    for name in models:
        sweeps.append(record(sweep(name, limit, size, taus, None if fresh else journal.folder())))
        results.write(output, results.machine(), {"sweeps": sweeps})


def table(part: str | Path = FILE) -> str:
    """Return AR, lossless, and every criterion at a few τ, a table per model; for the part `tasks` some τ
    of `mars-tiny` by task."""
    if part == "tasks":
        ours = paper_tables.here(8)
        frame = ours.frame[[ours.frame.columns[0], *(f"τ = {tau:g}" for tau in (1, 0.95, 0.8, 0.5))]]
        return f"{markdown.table(frame)}\n\n<sub>{ours.source}</sub>"
    measured = results.read(part)
    found = [_table(each) for each in map(Frontier.read, measured["sweeps"])]
    return "\n\n".join(found) + tables.source(measured)


def _table(measured: Frontier) -> str:
    rows = [
        {
            "slots are scored by": point.setting.title,
            "accuracy": _between(point.accuracy, point.accuracy_interval, ".1%"),
            "tokens per forward": _between(
                point.tokens_per_forward, point.tokens_per_forward_interval, ".2f"
            ),
            "faster than AR": f"{measured.faster(point):.2f}×",
            "answers unlike AR's": sum(one.leaves is not None for one in point.outcomes),
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
    parser.add_argument("--limit", type=int, help="prompts per model at most")
    parser.add_argument("--taus", type=float, nargs="+", default=TAUS)
    parser.add_argument("--size", type=int, default=SIZE, help="sequences of a batch")
    parser.add_argument("--fresh", action="store_true", help="keep nothing, and use nothing that was kept")
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
