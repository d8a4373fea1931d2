"""The chat model on its skills, as in the paper's Tables 2 to 4: AR SFT, MARS, and lossless.

    python -m benchmarks.skills --ar smollm/ar [--output FILE]

The columns of MARS are points of the chat model's frontier. This benchmark measures the AR SFT model that
MARS training started from, on the same held-out prompts and in batches of the same size.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks import frontier, tables
from mars_demo import tasks
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import AR, Frontier, Outcome, Setting
from mars_demo.evaluation.sweep import Sweep
from mars_demo.models.load import load_checkpoint

FILE = "skills.json"
MODEL = "mars-smollm2-135m"
COLUMNS = {
    "MARS, τ = 1": AR,
    "MARS, τ = 0.95": Setting("mars", "probability", 0.95),
    "MARS, lossless": Setting("lossless"),
}


def measured_frontier() -> Frontier:
    sweeps = results.read(frontier.FILE)["sweeps"]
    return Frontier.read(next(one for one in sweeps if one["model"] == MODEL))


def measure(ar: str, output: Path) -> None:
    mars = measured_frontier()
    sft = load_checkpoint(ar, "cpu", torch.bfloat16)  # the dtype of the chat model's sweep
    sweep = Sweep(sft, mars.tasks, len(mars.prompts), [], size=mars.size).finish()
    results.write(output, results.machine(sft), {"ar": sweep.record(texts=False)})


def table(file: str | Path = FILE) -> str:
    """Return a row per skill and one for all: accuracy in percent / tokens per forward."""
    measured = results.read(file)
    sft, mars = Frontier.read(measured["ar"]), measured_frontier()
    assert sft.prompts == mars.prompts, "The two sweeps have different prompts."
    columns = {"AR SFT": sft.points[0].outcomes}
    columns |= {title: mars.find(setting).outcomes for title, setting in COLUMNS.items()}
    rows = [
        {"skill": skill.title}
        | {title: cell(outcomes[place :: len(tasks.SKILLS)]) for title, outcomes in columns.items()}
        for place, skill in enumerate(tasks.SKILLS.values())
    ]
    rows.append({"skill": "**all**"} | {title: cell(outcomes) for title, outcomes in columns.items()})
    size = f"{len(mars.prompts)} held-out prompts: accuracy in percent / tokens per forward"
    return tables.shown(rows) + tables.source(measured, size)


def cell(outcomes: Sequence[Outcome]) -> str:
    right = 100 * sum(one.right for one in outcomes) / len(outcomes)
    speed = sum(one.tokens for one in outcomes) / sum(one.forwards for one in outcomes)
    return f"{right:.0f} / {speed:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ar", required=True, help="folder of the AR SFT model before MARS training")
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
