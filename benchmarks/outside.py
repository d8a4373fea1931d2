"""What tells a prompt outside the twelve worlds of the tiny model from one of theirs.

    python -m benchmarks.outside [--output assets/results/outside.json]

Each signal is a figure that is high inside and low outside: the confidence of slot 1 over an answer of one token
per forward, summed up in several ways, and two figures of the prompt alone. A threshold for each is chosen on half
of the held-out prompts, so that it calls at most 2 % of them outside; the other half says how often it is wrong,
and the prompts of `assets/outside.json` with those of the chat model how many it finds. The output holds the
table, and of the last signal, which the page uses, the threshold and the training prompts' pairs of words.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import mean

import torch

from mars_demo import checkpoints, outside, tasks
from mars_demo.decoding import decode

MODEL = "mars-tiny"
PER_TASK = 20  # held-out prompts to choose thresholds on, and as many to check them on
TRAINING = 100_000  # prompts whose words and pairs count as known
WRONG = 0.02  # of the held-out prompts a threshold is chosen on
ANSWER = 256  # tokens at most, as in the app


@dataclass(frozen=True)
class Answered:
    """A prompt, where it is from, and the confidence of slot 1 in each forward of its answer."""

    source: str
    prompt: str
    confidences: list[float]


SIGNALS: dict[str, Callable[[list[float]], float]] = {
    "mean confidence": mean,
    "mean confidence of the first 8": lambda c: mean(c[:8]),
    "least confidence": min,
    "mean log-probability": lambda c: mean(map(math.log, c)),
    "share of confidences from 0.5 on": lambda c: mean(one >= 0.5 for one in c),
}
WORDS, PAIRS = "share of known words in the prompt", "share of known pairs of words in the prompt"


def answer(prompt: str) -> list[float]:
    run = decode(_loaded(), prompt, mode="ar", max_new_tokens=ANSWER).finish()
    return [step.slots[0].confidence for step in run.passes]


def _loaded(loaded: list = []) -> checkpoints.Checkpoint:  # noqa: B006 (one per process)
    if not loaded:
        torch.set_num_threads(1)  # a process per core instead
        loaded.append(checkpoints.load(MODEL, device="cpu"))
    return loaded[0]


def prompts() -> tuple[list[tuple[str, str]], list[tuple[str, str]], list[tuple[str, str]]]:
    """Sources with prompts: to choose thresholds on, to check them on, and from outside."""
    chosen, checked = [], []
    for task in tasks.TASKS:
        drawn = [(task, example.prompt) for example in tasks.held_out(task, 2 * PER_TASK)]
        chosen += drawn[:PER_TASK]
        checked += drawn[PER_TASK:]
    listed = json.loads((checkpoints.ASSETS / "outside.json").read_text("utf-8"))
    listed["chat"] = [
        example["prompt"]
        for example in json.loads((checkpoints.ASSETS / "prompts.json").read_text("utf-8"))
        if example["model"] != MODEL
    ]
    return chosen, checked, [(kind, prompt) for kind, found in listed.items() for prompt in found]


def area(inside: Sequence[float], outside: Sequence[float]) -> float:
    """Under the ROC curve: how often a prompt inside has the higher figure; ties count half."""
    return mean((a > b) + (a == b) / 2 for a in inside for b in outside)


def threshold(inside: Sequence[float]) -> float:
    """The highest figure with at most `WRONG` of these below it."""
    return sorted(inside)[int(WRONG * len(inside))]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    groups = prompts()
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        answered = [
            [
                Answered(source, prompt, found)
                for (source, prompt), found in zip(
                    group, processes.map(answer, [p for _, p in group], chunksize=8)
                )
            ]
            for group in groups
        ]
    training = [e.prompt for e in islice(tasks.examples(None, "train", seed=0), TRAINING)]
    followers = outside.followers(training)
    known = {first: set(found) for first, found in followers.items()}

    def familiar_words(one: Answered) -> float:
        return mean([word in known for word in outside.words(one.prompt)] or [False])

    signals = {name: lambda one, of=of: of(one.confidences) for name, of in SIGNALS.items()}
    signals |= {WORDS: familiar_words, PAIRS: lambda one: outside.familiarity(one.prompt, known)}
    print(f"{MODEL}, held-out prompts {len(groups[0])} + {len(groups[1])}, outside {len(groups[2])}\n")
    print("| signal | area under ROC | outside below | held-out called outside | outside found |")
    print("|---|---|---|---|---|")
    rows = []
    for name, signal in signals.items():
        chosen, checked, others = ([signal(one) for one in group] for group in answered)
        limit = threshold(chosen)
        by_source: dict[str, list[bool]] = {}
        for one, figure in zip([*answered[1], *answered[2]], [*checked, *others]):
            by_source.setdefault(one.source, []).append(figure < limit)
        rows.append(
            {
                "signal": name,
                "area": round(area(checked, others), 4),
                "below": limit,
                "wrong": mean(figure < limit for figure in checked),
                "found": mean(figure < limit for figure in others),
                "called_outside": {source: f"{sum(c)} of {len(c)}" for source, c in by_source.items()},
            }
        )
        row = rows[-1]
        print(f"| {name} | {row['area']:.3f} | {limit:.3g} | {row['wrong']:.1%} | {row['found']:.1%} |")
    print(f"\nBy source, {PAIRS}: " + "; ".join(f"{s} {c}" for s, c in row["called_outside"].items()))
    print("Missed: " + ", ".join(repr(o.prompt) for o, f in zip(answered[2], others) if f >= limit))
    if arguments.output:
        record = {
            "model": MODEL,
            "held_out": [len(group) for group in groups[:2]],
            "outside": len(groups[2]),
            "training_prompts": TRAINING,
            "signals": rows,
            "inside_from": limit,
            "followers": {first: found for first, found in followers.items()},
        }
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
