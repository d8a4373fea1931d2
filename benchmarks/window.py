"""Fixed windows against one that follows what forwards cost, at batch 1, as ratios from one run.

    python -m benchmarks.window [--model mars-tiny] [--per-task 3] [--held-out FILE] [--prompts 12]
        [--rounds 3] [--tau 0.95] [--max-new-tokens 160] [--dtype auto] [--output FILE]

Every window size and the adaptive window answer every prompt in every round, in `mars` and in `lossless`;
they take turns prompt by prompt. Prints, for each set of prompts (a built-in task, or the held-out
prompts of `--held-out`) and for all of them, the best fixed window and how many times as fast as it the
adaptive one is, by tokens per second, with the smallest and the largest value of the rounds. The best fixed
window is chosen afterwards, for each set: nobody knows it beforehand.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.turns import Timed, take_turns
from mars_demo import tasks
from mars_demo.decoding.costs import Costs, measure
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.names import DTYPE
from mars_demo.training import distillation

ADAPTIVE, MIX = "adaptive", "all prompts"
MODES = ("mars", "lossless")


def sets_of(arguments: argparse.Namespace) -> dict[str, list[str]]:
    """The prompts by the set that they belong to."""
    if arguments.held_out:
        found = itertools.islice(distillation.prompts_from(arguments.held_out), arguments.prompts)
        return {"held-out prompts": list(found)}
    return {
        name: [example.prompt for example in tasks.held_out(name, arguments.per_task)]
        for name in tasks.TASKS
    }


def methods(
    checkpoint: Checkpoint, mode: str, costs: Costs, tau: float, limit: int
) -> dict[str, Callable[[str], int]]:
    """Every fixed window and the adaptive one; each gives the tokens of its answer."""

    def ours(**settings) -> Callable[[str], int]:
        request = Request(mode, tau, max_new_tokens=limit, **settings)
        return lambda prompt: decode(checkpoint, prompt, request).finish().tokens

    windows = range(1, checkpoint.largest_window + 1)
    return {f"{slots} slots": ours(window=slots) for slots in windows} | {ADAPTIVE: ours(costs=costs)}


def speeds(timed: Mapping[str, Timed]) -> dict[str, list[float]]:
    """Tokens per second of each method in each round. Below τ = 1, answers differ with the window."""
    return {name: [sum(one.found) / seconds for seconds in one.seconds] for name, one in timed.items()}


def row(mode: str, name: str, found: Mapping[str, Sequence[float]]) -> dict:
    """What is written of a set: tokens per second, and the fixed window that turned out the best."""
    fixed = {method: median(rounds) for method, rounds in found.items() if method != ADAPTIVE}
    return {
        "mode": mode,
        "set": name,
        "best": max(fixed, key=fixed.get),
        "tokens_per_second": {method: list(rounds) for method, rounds in found.items()},
    }


def mixed(sets: Sequence[Mapping[str, Timed]]) -> dict[str, Timed]:
    """The sets as one: their times added, their tokens together."""
    return {
        name: Timed(
            [sum(rounds) for rounds in zip(*(timed[name].seconds for timed in sets))],
            [tokens for timed in sets for tokens in timed[name].found],
        )
        for name in sets[0]
    }


def printed(row: dict) -> str:
    found = row["tokens_per_second"]
    against_best, against_largest = (
        results.ranged([ours / fixed for ours, fixed in zip(found[ADAPTIVE], found[other])], unit="×")
        for other in (row["best"], list(found)[-2])
    )
    return f"| {row['mode']} | {row['set']} | {row['best']} | {against_best} | {against_largest} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-tiny")
    parser.add_argument("--per-task", type=int, default=3, help="prompts of each built-in task")
    parser.add_argument("--held-out", help="a file of prompts instead of those of the built-in tasks")
    parser.add_argument("--prompts", type=int, default=12, help="of that file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tau", type=float, default=0.95)
    parser.add_argument("--max-new-tokens", type=int, default=160)
    parser.add_argument("--dtype", **DTYPE)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    checkpoint = load_checkpoint(arguments.model, dtype=arguments.dtype)
    costs = measure(checkpoint)
    if costs is None:
        parser.exit(1, "This model is too slow here for its forwards to be measured.\n")
    machine = results.machine(checkpoint)
    print(f"{machine}, τ = {arguments.tau:g}, {arguments.rounds} rounds")
    print("c(k):", ", ".join(f"{k}: {ms:.1f} ms" for k, ms in costs.points), "\n")
    print("| mode | prompts | best fixed window | adaptive, as fast as that | as the largest window |")
    print("|---|---|---|---|---|")
    sets, rows = sets_of(arguments), []
    for mode in MODES:
        ways = methods(checkpoint, mode, costs, arguments.tau, arguments.max_new_tokens)
        timed = {name: take_turns(ways, prompts, arguments.rounds) for name, prompts in sets.items()}
        if len(timed) > 1:
            timed[MIX] = mixed(list(timed.values()))
        for name, found in timed.items():
            rows.append(row(mode, name, speeds(found)))
            print(printed(rows[-1]), flush=True)
    if arguments.output:
        results.write(arguments.output, machine, {"costs": costs.points, "rows": rows})


if __name__ == "__main__":
    main()
