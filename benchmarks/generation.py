"""How fast training data is written: transformers' `generate` and this project's batched AR, by turns.

    python -m benchmarks.generation [--model mars-smollm2-135m] [--rows 32,96,192] [--rounds 3]
        [--max-new-tokens 192] [--output FILE]

Both answer the same made prompts greedily in bfloat16, twice as many as there are rows. Transformers takes
them in batches; here a finished row makes room for the next prompt.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from functools import partial
from pathlib import Path

import torch

from benchmarks.turns import take_turns
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results, throughput
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.messages import Encoded
from mars_demo.serving.finished import finished
from mars_demo.training import distillation

OURS = "AR, this project"


def by_transformers(checkpoint: Checkpoint, prompts: list[str], rows: int, limit: int) -> int:
    return throughput.generate(checkpoint, prompts, rows, limit).tokens


def ours(checkpoint: Checkpoint, prompts: list[str], rows: int, limit: int) -> int:
    request = Request("ar", max_new_tokens=limit)
    asked = [(Encoded(encode_prompt(checkpoint.tokenizer, prompt), ""), request) for prompt in prompts]
    return sum(run.tokens for _, run in finished(checkpoint, asked, rows))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-smollm2-135m")
    parser.add_argument("--rows", default="32,96,192")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-new-tokens", type=int, default=192)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    checkpoint = load_checkpoint(arguments.model, dtype=torch.bfloat16).dense
    machine = results.machine(checkpoint)
    print(f"{machine}, {arguments.rounds} rounds\n")
    print("| rows | method | tokens per second | faster than transformers |\n|---|---|---|---|")
    measured = []
    for rows in map(int, arguments.rows.split(",")):
        prompts = sorted(itertools.islice(distillation.made_prompts(), 2 * rows), key=len)
        given = {"rows": rows, "limit": arguments.max_new_tokens}
        methods = {
            throughput.GENERATE: partial(by_transformers, checkpoint, **given),
            OURS: partial(ours, checkpoint, **given),
        }
        timed = take_turns(methods, [prompts], arguments.rounds)
        per_token = {name: [s / sum(one.found) for s in one.seconds] for name, one in timed.items()}
        for name, one in timed.items():
            [tokens] = one.found  # in bfloat16 the answers are not always the same ones
            faster = results.ranged(
                results.ratios(per_token[name], per_token[throughput.GENERATE]), unit="×"
            )
            speed = tokens / statistics.median(one.seconds)
            print(f"| {rows} | {name} | {speed:.0f} | {faster} |", flush=True)
            measured.append({"rows": rows, "method": name, "seconds": one.seconds, "tokens": tokens})
    if arguments.output:
        record = {"max_new_tokens": arguments.max_new_tokens, "rows": measured}
        results.write(arguments.output, machine, record)


if __name__ == "__main__":
    main()
