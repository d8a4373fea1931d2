"""What the bundled tiny models can do on held-out prompts: the table of the README.

    python -m benchmarks.bundled [--limit 40] [--output assets/results/tiny.json]

Accuracy and tokens per forward for each task: `ar-tiny` and `mars-tiny` at several τ, and lossless decoding
with the number of answers that equal those of `ar`.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

from mars_demo import checkpoints, tasks
from mars_demo.evaluation import answers, average, row

TAUS = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    ar_tiny, mars_tiny = (checkpoints.load(name, device="cpu") for name in ("ar-tiny", "mars-tiny"))

    methods = {
        "ar-tiny": (ar_tiny, {"mode": "ar"}),
        "mars-tiny ar": (mars_tiny, {"mode": "ar"}),
        **{f"mars-tiny τ={tau:g}": (mars_tiny, {"mode": "mars", "tau": tau}) for tau in TAUS},
        "mars-tiny lossless": (mars_tiny, {"mode": "lossless"}),
    }
    rows = defaultdict(list)
    different = 0
    for task in tasks.TASKS:
        examples = tasks.held_out(task, arguments.limit)
        graded = {}
        for name, (checkpoint, settings) in methods.items():
            graded[name] = list(answers(checkpoint, examples, **settings))
            rows[name].append(row(task, settings.get("tau"), graded[name]))
        different += sum(
            ar.token_ids != lossless.token_ids
            for (_, ar), (_, lossless) in zip(graded["mars-tiny ar"], graded["mars-tiny lossless"])
        )
        cells = (f"{n.removeprefix('mars-tiny ')} {r[-1].accuracy:.1%} {r[-1].tokens_per_forward:.2f}"
                 for n, r in rows.items())  # fmt: skip
        print(f"{task}: {' | '.join(cells)}", flush=True)

    columns = ["ar-tiny", "mars-tiny τ=1", "mars-tiny τ=0.95", "mars-tiny τ=0.5", "mars-tiny lossless"]
    print(f"\n| task | {' | '.join(columns)} |")
    print("|---|" + "---|" * len(columns))
    for index, task in enumerate([*tasks.TASKS, "average"]):
        cells = []
        for name in columns:
            r = average(rows[name]) if task == "average" else rows[name][index]
            cells.append(f"{r.accuracy:.1%}, {r.tokens_per_forward:.2f}")
        print(f"| {task} | {' | '.join(cells)} |")
    total = arguments.limit * len(tasks.TASKS)
    print(f"\nlossless: {total - different} of {total} answers equal to those of ar, token for token.")
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        record = {
            "prompts_per_task": arguments.limit,
            "lossless_equal": total - different,
            "methods": {name: [asdict(r) for r in rs] for name, rs in rows.items()},
        }
        arguments.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
