"""What one small machine serves: simulated visitors of the real app, who race at once.

    python -m benchmarks.visitors [--model mars-tiny] [--visitors 1 5 20 50] [--seconds 60] [--browsers 3]
    python -m benchmarks.visitors --visitors 20 --soak 30
    python -m benchmarks.visitors --visitors 50 --races 1,4,8,16,32,50

The app runs as a process of its own. For each number of visitors, all of them press Run within two seconds,
as a talk's audience does, and then race on with pauses: own prompts, modes and τ, τ moved in mid-race; some
leave or reload in mid-race. Every stream is checked against the answer that its prompt and settings give
alone. The visitors take processor time of the same machine. With `--soak` one crowd stays for that many
minutes. With `--races` the app is started with each limit of races at once, for the first press alone.
Prints a Markdown table; progress goes to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.visitors.app import serving
from benchmarks.visitors.crowd import tell, visit
from mars_demo.evaluation import results
from mars_demo.limits import LIMITS, Limits
from mars_demo.models.load import load_checkpoint


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--model", default="mars-tiny")
    add("--visitors", type=int, nargs="+", default=[1, 5, 20, 50])
    add("--seconds", type=float, default=60.0, help="until no more races begin; 0 for the first ones only")
    add("--soak", type=float, default=0.0, metavar="MINUTES", help="one crowd, the last of --visitors")
    add("--races", type=lambda text: [int(n) for n in text.split(",")], help="limits to compare: 1,4,8")
    add("--browsers", type=int, default=0, help="real browsers in addition to the visitors")
    add("--seed", type=int, default=0)
    add("--output", type=Path)
    return parser.parse_args()


def crowds(chosen: argparse.Namespace) -> Iterator[dict]:
    """A row for each crowd."""
    checkpoint = load_checkpoint(chosen.model, dtype="auto")
    sizes = chosen.visitors[-1:] if chosen.soak or chosen.races else chosen.visitors
    seconds = 0.0 if chosen.races else 60 * chosen.soak or chosen.seconds
    for races in chosen.races or [LIMITS.races]:
        limits = {Limits.races.variable: races}
        for size in sizes:
            tell(f"{size} visitors, {races} races at once")
            with serving(chosen.model, limits) as app:
                crowd = visit(app, checkpoint, size, seconds, chosen.seed, chosen.browsers)
                yield {"limit": races, **asyncio.run(crowd)}


def shown(row: dict) -> str:
    def seconds(values: dict | None) -> str:
        return ", ".join(f"{key} {value:.2f}" for key, value in (values or {}).items())

    first, burst, memory = row["first_token"], row["burst"], row["memory"]
    cells = [
        row["visitors"], row["limit"], row["races"], seconds(first), seconds(burst["first_token"]),
        f"{burst['all_answers'] or 0:.1f}", f"{burst['mean_race_seconds']:.1f}",
        seconds(row["ms_per_token"]), f"{row['tokens_per_second']:.0f}",
        f"{memory['start']:.0f}, {memory['end']:.0f}",
        f"{len(row['crosstalk'])} of {row['streams']}, {row['ties']}", len(row["errors"]),
    ]  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    chosen = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # else the app would go on alone
    machine = results.machine(load_checkpoint(chosen.model, dtype="auto"))
    print(f"{machine}\n")
    print(
        "| visitors | races at once | races | first token, s | of the first races | all answered, s "
        "| mean, s | ms per token | tokens/s | MiB: start, end | cross-talk, ties | errors |\n"
        + "|---" * 12
        + "|"
    )
    rows = []
    for row in crowds(chosen):
        rows.append(row)
        print(shown(row), flush=True)
        for trouble in [*row["crosstalk"], *row["errors"], *row["browsers"]]:
            tell(str(trouble))
        if chosen.output:
            results.write(chosen.output, machine, {"model": chosen.model, "rows": rows})


if __name__ == "__main__":
    main()
