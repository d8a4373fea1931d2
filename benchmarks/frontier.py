"""What a lower τ buys and costs, by criterion: the sweeps that the page shows before anything is measured.

    python -m benchmarks.frontier [--models mars-tiny] [--limit 24] [--output assets/results/frontier.json]

Every bundled MARS model answers prompts as AR, losslessly, and with each criterion at each τ: the tiny
model those of its worlds, the chat model the checked instructions. Answers are kept as they are
finished, so a run that was cut goes on where it was; `--fresh` measures everything again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mars_demo.evaluation import journal, results
from mars_demo.evaluation.frontier import TAUS, Frontier, Point
from mars_demo.evaluation.sweep import SIZE, Sweep, grid
from mars_demo.models.load import load_checkpoint

SETS = {"mars-tiny": ("worlds", 480), "mars-smollm2-135m": ("instructions", 160)}  # and prompts at most
LARGEST = 300_000  # characters of a sweep; wrong answers are left out of a longer one


def line(frontier: Frontier, point: Point) -> str:
    low, high = point.accuracy_interval
    return (
        f"| {point.setting.title} | {point.n} | {point.accuracy:.1%} ({low:.1%}–{high:.1%}) "
        f"| {point.tokens_per_forward:.2f} | {point.seconds:.1f} | {frontier.faster(point):.2f} |"
    )


def measure(name: str, limit: int | None, size: int, taus: list[float], folder: Path | None) -> Frontier:
    """The sweep of one model, with a line per point as it is finished."""
    tasks, most = SETS[name]
    checkpoint = load_checkpoint(name, device="cpu")
    settings = grid(checkpoint, taus=taus)
    sweep = Sweep(checkpoint, tasks, min(limit or most, most), settings, size=size, folder=folder)
    print(f"\n{name}, {tasks}\n\n| setting | n | right | tokens per forward | seconds | faster than AR |")
    print("|---|---|---|---|---|---|")
    for step in sweep:
        if step.point:
            print(line(sweep.frontier, step.point), flush=True)
    return sweep.frontier


def record(frontier: Frontier) -> dict:
    full = frontier.record()
    return full if len(json.dumps(full, ensure_ascii=False)) <= LARGEST else frontier.record(texts=False)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--limit", type=int, help="prompts per model at most")
    parser.add_argument("--taus", type=float, nargs="+", default=TAUS)
    parser.add_argument("--size", type=int, default=SIZE, help="rows of a batch")
    parser.add_argument("--fresh", action="store_true", help="keep nothing, and use nothing that was kept")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    folder, sweeps = None if arguments.fresh else journal.folder(), []
    if arguments.output and arguments.output.exists():  # what it holds of other models stays
        written = json.loads(arguments.output.read_text("utf-8"))["sweeps"]
        sweeps = [sweep for sweep in written if sweep["model"] not in arguments.models]
    for name in arguments.models:
        frontier = measure(name, arguments.limit, arguments.size, arguments.taus, folder)
        sweeps.append(record(frontier))
        if arguments.output:
            results.write(arguments.output, results.machine(), {"sweeps": sweeps})


if __name__ == "__main__":
    main()
