"""What copies are worth where answers repeat their prompts: rewriting, editing code, quoting.

    python -m benchmarks.copying [--model mars-smollm2-135m] [--prompts 12] [--rounds 3]
        [--max-new-tokens 160] [--dtype auto] [--output FILE]

`ar` and `lossless`, with and without copies, in its full window and in one that follows what forwards cost
here, answer every prompt in every round and take turns prompt by
prompt. Prints tokens per forward, how many tokens were copied, and how many times as fast as `ar` each one
is, with the smallest and the largest value of the rounds. Nothing is graded: all answers are those of `ar`,
and those that are not, because of a near-tie in bfloat16, are counted.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.turns import Timed, take_turns
from mars_demo.decoding import costs
from mars_demo.decoding.costs import Costs
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.evaluation import results
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.names import DTYPE

PROMPTS = Path(__file__).with_suffix(".json")  # the kinds of tasks in turn, so that a few prompts have all


@dataclass(frozen=True)
class Row:
    """All prompts answered in one way. `seconds` has a value per round, `equal` counts the answers that are
    those of `ar`."""

    method: str
    tokens: int
    forwards: int
    positions: int
    sources: dict[str, int]
    equal: int
    seconds: list[float]


def methods(limit: int, known: Costs) -> dict[str, Request]:
    return {
        "ar": Request("ar", max_new_tokens=limit),
        "lossless, no copies": Request("lossless", copies=0, max_new_tokens=limit),
        "lossless": Request("lossless", max_new_tokens=limit),
        "lossless, adaptive": Request("lossless", max_new_tokens=limit, costs=known),
    }


def measure(checkpoint: Checkpoint, prompts: Sequence[str], rounds: int, limit: int) -> list[Row]:
    def answering(request: Request):
        return lambda prompt: decode(checkpoint, prompt, request).finish()

    asked = {
        name: answering(request) for name, request in methods(limit, costs.measure(checkpoint)).items()
    }
    timed = take_turns(asked, prompts, rounds)
    return [row(name, one, timed["ar"].found) for name, one in timed.items()]


def row(method: str, timed: Timed, alone: Sequence[Run]) -> Row:
    runs = timed.found
    return Row(
        method=method,
        tokens=sum(run.tokens for run in runs),
        forwards=sum(run.forwards for run in runs),
        positions=sum(step.positions for run in runs for step in run.passes),
        sources=dict(sum((run.sources for run in runs), Counter())),
        equal=sum(run.token_ids == ar.token_ids for run, ar in zip(runs, alone)),
        seconds=timed.seconds,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-smollm2-135m")
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-new-tokens", type=int, default=160)
    parser.add_argument("--dtype", **DTYPE)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    checkpoint = load_checkpoint(arguments.model, dtype=arguments.dtype)
    prompts = [task["prompt"] for task in json.loads(PROMPTS.read_text("utf-8"))][: arguments.prompts]
    machine = results.machine(checkpoint)
    found = measure(checkpoint, prompts, arguments.rounds, arguments.max_new_tokens)
    print(f"{machine}, {len(prompts)} prompts, {arguments.rounds} rounds\n")
    print(
        "| method | tokens per forward | copied | positions per forward | answers of ar | faster than ar |"
    )
    print("|---|---|---|---|---|---|")
    for one in found:
        copied = one.sources.get("copy", 0) / one.tokens
        print(
            f"| {one.method} | {one.tokens / one.forwards:.2f} | {copied:.0%} "
            f"| {one.positions / one.forwards:.1f} | {one.equal} of {len(prompts)} "
            f"| {results.ranged(results.ratios(one.seconds, found[0].seconds))}× |"
        )
    if arguments.output:
        record = {
            "prompts": len(prompts),
            "rounds": arguments.rounds,
            "max_new_tokens": arguments.max_new_tokens,
            "rows": [asdict(one) for one in found],
        }
        results.write(arguments.output, machine, record)


if __name__ == "__main__":
    main()
