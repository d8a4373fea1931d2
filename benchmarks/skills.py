"""The chat model on its skills, in the form of the paper's Tables 2 to 4: AR SFT, MARS, and lossless.

    python -m benchmarks.skills --ar smollm/ar [--limit 255] [--taus 0.95 0.8] [--output FILE]

All answer the same held-out prompts, as many of each skill, in batches; every answer has the tokens and the
forwards that it has alone.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks import tables
from mars_demo import tasks
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import AR, Frontier, Outcome, Setting
from mars_demo.evaluation.sweep import SIZE, Sweep
from mars_demo.models.load import load_checkpoint

FILE = "skills.json"


def measure(model: str, ar: str, limit: int, size: int, taus: list[float], output: Path) -> None:
    settings = [Setting("lossless"), *(Setting("mars", "probability", tau) for tau in taus)]
    tuned, base = load_checkpoint(model, device="cpu"), load_checkpoint(ar, device="cpu")
    sweeps = [
        Sweep(checkpoint, "skills", limit, chosen, size=size).finish()
        for checkpoint, chosen in ((base, []), (tuned, settings))
    ]
    record = {"ar": sweeps[0].record(texts=False), "mars": sweeps[1].record(texts=False)}
    results.write(output, results.machine(tuned), record)


def table(file: str | Path = FILE) -> str:
    """Return a row per skill and their average: percent of right answers / tokens per forward."""
    measured = results.read(file)
    sft, mars = (Frontier.read(measured[name]) for name in ("ar", "mars"))
    columns = {"AR SFT": sft.points[0].outcomes}
    for point in mars.points:
        title = f"MARS, τ = {point.setting.tau:g}" if point.setting.tau else "MARS, lossless"
        columns["MARS, τ = 1" if point.setting == AR else title] = point.outcomes
    skills = list(tasks.SKILLS)
    rows = [
        {"skill": tasks.SKILLS[skill].title}
        | {name: cell(outcomes[place :: len(skills)]) for name, outcomes in columns.items()}
        for place, skill in enumerate(skills)
    ]
    rows.append({"skill": "all"} | {name: cell(outcomes) for name, outcomes in columns.items()})
    equal = sum(one.leaves is None for one in mars.find(Setting("lossless")).outcomes)
    size = f"{len(mars.prompts)} held-out prompts, greedy: percent right / tokens per forward"
    return (
        f"{tables.shown(rows)}\n\nLossless gives AR's tokens in {equal} of {len(mars.prompts)} answers."
        + (tables.source(measured, size))
    )


def cell(outcomes: Sequence[Outcome]) -> str:
    right = 100 * sum(one.right for one in outcomes) / len(outcomes)
    speed = sum(one.tokens for one in outcomes) / sum(one.forwards for one in outcomes)
    return f"{right:.0f} / {speed:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-smollm2-135m")
    parser.add_argument("--ar", required=True, help="the folder of the AR SFT model that MARS began from")
    parser.add_argument("--limit", type=int, default=15 * len(tasks.SKILLS), help="prompts")
    parser.add_argument("--size", type=int, default=SIZE, help="sequences of a batch")
    parser.add_argument("--taus", type=float, nargs="+", default=[0.95])
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
