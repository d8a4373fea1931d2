"""Recorded runs: what the page shows before any model is loaded.

`assets/runs/index.json` says what to record, a file of run records per entry lies beside it.

    python -m mars_demo.recordings [ID …]

records them anew, all or those named.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from mars_demo.schedules import with_block_cache, with_cursor_cache
from mars_demo.trace import Run, read_runs

RUNS = Path(__file__).parents[1] / "assets" / "runs"
BATCHED = ("bus", "table", "function", "letter", "story")  # those that share a batch in pictures
CACHE_BLOCK = 16  # of that batch
TIMES = 5  # that a run is recorded


def index() -> list[dict[str, Any]]:
    """The recorded runs, the first to be shown first: `id`, `title`, `note` and how they were made."""
    return json.loads((RUNS / "index.json").read_text("utf-8"))


def recording(id: str) -> str:
    """A recorded run as JSON lines: its title and note, then the record of each side.

    Raises:
        ValueError: if there is none of that id.
    """
    for entry in index():
        if entry["id"] == id:
            header = {"recording": id, "title": entry["title"], "note": entry["note"]}
            return json.dumps(header, ensure_ascii=False) + "\n" + (RUNS / f"{id}.jsonl").read_text("utf-8")
    raise ValueError(f"There is no recorded run {id!r}.")


def batched() -> str:
    """How a batch of recorded runs would be scheduled, with the block cache and with the cursor cache, as
    JSON lines."""
    titles = {entry["id"]: entry["title"] for entry in index()}
    rows, accepted = [titles[id] for id in BATCHED], []
    for id in BATCHED:
        runs = read_runs(recording(id).splitlines()[1:])
        run = next(run for run in runs if run.settings.mode == "mars")
        accepted.append([step.accepted for step in run.passes])
    found = (with_block_cache(rows, accepted, CACHE_BLOCK), with_cursor_cache(rows, accepted))
    return "".join(f"{line}\n" for schedule in found for line in schedule.lines())


def tau_at(steps: list[list[float]], number: int) -> float:
    """The τ of a forward, from `[forward, τ]` pairs that say from where on it holds."""
    return [tau for first, tau in steps if first <= number][-1]


def record(entry: dict[str, Any]) -> str:
    """Run an entry of the index, its modes in turn, `TIMES` times; a forward has the median of its times.

    Raises:
        ValueError: if the same mode did not accept the same tokens each time.
    """
    from mars_demo import checkpoints, decoding

    checkpoint = checkpoints.load(entry["model"])

    def run(mode: str) -> Run:
        tau = entry["tau"][0][1]
        run = decoding.decode(checkpoint, entry["prompt"], mode=mode, tau=lambda: tau)
        while not run.stop:
            tau = tau_at(entry["tau"], run.forwards + 1)
            next(run)
        return run

    for mode in entry["modes"]:
        run(mode)  # warm up
    rounds = [[run(mode) for mode in entry["modes"]] for _ in range(TIMES)]
    runs = [typical(same) for same in zip(*rounds)]
    return "".join(f"{line}\n" for run in runs for line in run.lines())


def typical(runs: Sequence[Run]) -> Run:
    """The first of several runs of the same, each forward with the median of its times: what else the
    machine did meanwhile is not the model's.

    Raises:
        ValueError: if they did not accept the same tokens in the same forwards.
    """
    first, *others = runs
    accepted = [[step.accepted for step in run.passes] for run in runs]
    if any(run.token_ids != first.token_ids for run in others) or any(a != accepted[0] for a in accepted):
        raise ValueError(f"{first.settings.mode} did not accept the same tokens each time.")
    steps = zip(*(run.passes for run in runs))
    return Run(
        first.settings, (replace(same[0], ms=median(step.ms for step in same)) for same in steps)
    ).finish()


def main() -> None:
    entries = {entry["id"]: entry for entry in index()}
    chosen = sys.argv[1:] or list(entries)
    if unknown := [id for id in chosen if id not in entries]:
        sys.exit(f"There is no recorded run {unknown[0]!r}: allowed are {', '.join(entries)}.")
    for entry in (entries[id] for id in chosen):
        (RUNS / f"{entry['id']}.jsonl").write_text(record(entry), encoding="utf-8")
        print(entry["id"])


if __name__ == "__main__":
    main()
