"""How to tell a prompt outside the twelve worlds of the tiny model from one inside.

    python -m benchmarks.outside [--output assets/results/outside.json]

Each signal is a number that is high inside and low outside: the confidence over an answer of one token
per forward, averaged in several ways, and two numbers of the prompt alone. A threshold for each is chosen
on half of the held-out prompts, so that it calls at most 2 % of them outside. The other half says how
often it is wrong, and the prompts of `assets/outside.json` with the chat model's examples say how many it
finds. The output holds the table and, of the last signal, which the page uses, the threshold and the
pairs of words of the training prompts.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from statistics import mean

import torch

from mars_demo import tasks
from mars_demo.assets import ASSETS
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.evaluation import outside, results
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint

MODEL = "mars-tiny"
PER_TASK = 20  # held-out prompts to choose thresholds on, and as many to check them on
TRAINING = 100_000  # prompts whose words and pairs count as known
WRONG = 0.02  # at most this share of the held-out prompts that a threshold is chosen on
ANSWER = 256  # tokens at most, as in the app


@dataclass(frozen=True)
class Answered:
    """A prompt, where it is from, and the confidence of slot 1 in each forward of its answer."""

    source: str
    prompt: str
    confidences: list[float]


@dataclass(frozen=True)
class Row:
    """A signal and its threshold: the area under the ROC curve, the share of held-out prompts wrongly
    called outside, the share of outside prompts found, and the counts by source."""

    signal: str
    area: float
    below: float
    wrong: float
    found: float
    called_outside: dict[str, str]


Signal = Callable[[Answered], float]
CONFIDENCE: dict[str, Signal] = {
    "mean confidence": lambda one: mean(one.confidences),
    "mean confidence of the first 8": lambda one: mean(one.confidences[:8]),
    "least confidence": lambda one: min(one.confidences),
    "mean log-probability": lambda one: mean(map(math.log, one.confidences)),
    "share of confidences from 0.5 on": lambda one: mean(c >= 0.5 for c in one.confidences),
}


@cache
def loaded() -> Checkpoint:
    torch.set_num_threads(1)  # a process per core instead
    return load_checkpoint(MODEL, device="cpu")


def answered(source: str, prompt: str) -> Answered:
    run = decode(loaded(), prompt, Request(mode="ar", max_new_tokens=ANSWER)).finish()
    return Answered(source, prompt, [step.slots[0].confidence for step in run.passes])


def held_out() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Worlds with prompts: to choose thresholds on, and others to check them on."""
    drawn = {task: [e.prompt for e in tasks.held_out(task, 2 * PER_TASK)] for task in tasks.TASKS}
    halves = slice(PER_TASK), slice(PER_TASK, None)
    chosen, checked = ([(task, p) for task, found in drawn.items() for p in found[half]] for half in halves)
    return chosen, checked


def from_outside() -> list[tuple[str, str]]:
    """Kinds with prompts."""
    kinds = json.loads((ASSETS / "outside.json").read_text("utf-8"))
    examples = json.loads((ASSETS / "prompts.json").read_text("utf-8"))
    kinds["the chat model's examples"] = [e["prompt"] for e in examples if e["model"] != MODEL]
    return [(kind, prompt) for kind, found in kinds.items() for prompt in found]


def area(inside: Sequence[float], others: Sequence[float]) -> float:
    """Under the ROC curve: how often a prompt inside has the higher figure; ties count half."""
    return mean((a > b) + (a == b) / 2 for a in inside for b in others)


def threshold(inside: Sequence[float]) -> float:
    """The highest figure with at most `WRONG` of these below it."""
    return sorted(inside)[int(WRONG * len(inside))]


def row(name: str, signal: Signal, groups: Sequence[Sequence[Answered]]) -> Row:
    chosen, checked, others = groups
    limit = threshold([signal(one) for one in chosen])
    by_source: dict[str, list[bool]] = {}
    for one in (*checked, *others):
        by_source.setdefault(one.source, []).append(signal(one) < limit)
    inside, beyond = ([signal(one) for one in group] for group in (checked, others))
    return Row(
        name,
        area(inside, beyond),
        limit,
        mean(figure < limit for figure in inside),
        mean(figure < limit for figure in beyond),
        {source: f"{sum(called)} of {len(called)}" for source, called in by_source.items()},
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    training = [e.prompt for e in islice(tasks.examples(None, "train", seed=0), TRAINING)]
    followers = outside.followers(training)
    shortest = min(len(outside.pairs(prompt)) for prompt in training)
    known = {first: set(found) for first, found in followers.items()}
    signals = CONFIDENCE | {
        "share of known words in the prompt": lambda one: mean(
            word in known for word in outside.words(one.prompt)
        ),
        "share of known pairs of words": lambda one: outside.familiarity(one.prompt, known, shortest),
    }
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        groups = [
            list(processes.map(answered, *zip(*group), chunksize=8))
            for group in (*held_out(), from_outside())
        ]
    counts = [len(group) for group in groups]
    print("{}: {} held-out prompts to choose on, {} to check on, {} from outside\n".format(MODEL, *counts))
    print("| signal | area under ROC | outside below | held-out called outside | outside found |")
    print("|---|---|---|---|---|")
    rows = [row(name, signal, groups) for name, signal in signals.items()]
    for r in rows:
        print(f"| {r.signal} | {r.area:.3f} | {r.below:.3g} | {r.wrong:.1%} | {r.found:.1%} |")
    print(f"\n{r.signal}, called outside:", "; ".join(f"{s} {n}" for s, n in r.called_outside.items()))
    missed = [one.prompt for one in groups[2] if signals[r.signal](one) >= r.below]
    print("Missed:", *map(repr, missed))
    if arguments.output:
        record = {
            "model": MODEL,
            "held_out": counts[:2],
            "outside": counts[2],
            "training_prompts": TRAINING,
            "signals": [asdict(r) for r in rows],
            "inside_from": r.below,
            "shortest": shortest,
            "followers": {first: " ".join(found) for first, found in followers.items()},
        }
        results.write(arguments.output, results.machine(load_checkpoint(MODEL, device="cpu")), record)


if __name__ == "__main__":
    main()
