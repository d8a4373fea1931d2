"""The chat model on its skills: accuracy and tokens per forward by skill, beside its base.

    python -m benchmarks.skills --base smollm/base [--output FILE]

The columns of MARS are points of the chat model's frontier. This benchmark measures the base, the model
before any training on skills, on the same held-out prompts and in batches of the same size.
"""

import argparse
from collections.abc import Sequence
from itertools import compress
from pathlib import Path

import torch

from benchmarks import frontier, tables
from mars_demo import tasks
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import AR, Frontier, Outcome, Setting
from mars_demo.evaluation.sweep import Sweep
from mars_demo.models.load import load_checkpoint
from mars_demo.models.names import CHAT

FILE = "skills.json"
MODEL = CHAT
COLUMNS = {
    "MARS, τ = 1": AR,
    "MARS, τ = 0.95": Setting("mars", "probability", 0.95),
    "MARS, lossless": Setting("lossless"),
}


def measured_frontier() -> Frontier:
    sweeps = results.read(frontier.FILE)["sweeps"]
    return Frontier.read(next(one for one in sweeps if one["model"] == MODEL))


def measure(base: str, output: Path) -> None:
    mars = measured_frontier()
    plain = load_checkpoint(base, "cpu", torch.bfloat16)  # the dtype of the chat model's sweep
    sweep = Sweep(plain, mars.tasks, len(mars.prompts), [], size=mars.size).finish()
    results.write(output, results.machine(plain), {"base": sweep.record(texts=False)})


def table(file: str | Path = FILE) -> str:
    """Return a row per skill, and rows for all and for seen and unseen phrasings.

    A cell is accuracy in percent / tokens per forward.
    """
    measured = results.read(file)
    base, mars = Frontier.read(measured["base"]), measured_frontier()
    assert base.prompts == mars.prompts, "The two sweeps have different prompts."
    columns = {"base": base.points[0].outcomes}
    columns |= {title: mars.find(setting).outcomes for title, setting in COLUMNS.items()}
    names = [*tasks.SKILLS]
    unseen = unseen_kinds(names, len(mars.prompts))
    rows = [
        {"skill": tasks.task(name).title}
        | {title: cell(outcomes[place :: len(names)]) for title, outcomes in columns.items()}
        for place, name in enumerate(names)
    ]
    for title, chosen in (
        ("**all**", [True] * len(unseen)),
        ("**kinds seen in training**", [not one for one in unseen]),
        ("**kinds never seen in training**", unseen),
    ):
        cells = {name: cell([*compress(outcomes, chosen)]) for name, outcomes in columns.items()}
        rows.append({"skill": f"{title} ({sum(chosen)})"} | cells)
    size = f"{len(mars.prompts)} held-out prompts: accuracy in percent / tokens per forward"
    return tables.shown(rows) + tables.source(measured, size)


def unseen_kinds(names: list[str], count: int) -> list[bool]:
    """Return for each prompt of a sweep whether its kind of phrasing or field is unseen in training."""
    return [example.unseen for example in tasks.mixed(-(-count // len(names)), names)[:count]]


def cell(outcomes: Sequence[Outcome]) -> str:
    right = 100 * sum(one.right for one in outcomes) / len(outcomes)
    speed = sum(one.tokens for one in outcomes) / sum(one.forwards for one in outcomes)
    return f"{right:.0f} / {speed:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", required=True, help="a GGUF file, folder or hub id")
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
