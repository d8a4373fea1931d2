"""Wall-clock at batch 1 on this machine, as ratios from one run.

    python -m benchmarks.speed [--model mars-tiny] [--prompts 36] [--held-out FILE] [--rounds 3]
        [--taus 0.95] [--max-new-tokens 160] [--output FILE]

Every method answers every prompt in every round; methods take turns prompt by prompt, so that a slow
moment of the machine falls on all of them. Prints how many times as fast as `ar` each one is, with the
smallest and the largest value of the rounds.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from benchmarks.turns import take_turns
from mars_demo import tasks
from mars_demo.decoding import layout
from mars_demo.decoding.acceptance import Acceptance, accepted
from mars_demo.decoding.decode import decode
from mars_demo.decoding.engine import Engine
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results, throughput
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.training import distillation

RECORDED, UNRECORDED = "mars τ = 0.95", "mars τ = 0.95, nothing recorded"


def transformers_generate(checkpoint: Checkpoint, prompt: str, limit: int) -> tuple[int, int]:
    result = throughput.generate(checkpoint, [prompt], 1, limit)
    return result.tokens, result.forwards


def unrecorded(checkpoint: Checkpoint, prompt: str, slots: int, tau: float, limit: int) -> tuple[int, int]:
    """The sliding window with nothing kept but its tokens: what recording is measured against."""
    rule, engine, answer, forwards = Acceptance(tau=tau), Engine(checkpoint.decoder), [], 0
    new = encode_prompt(checkpoint.tokenizer, prompt)
    while len(answer) < limit:
        masks = min(slots, limit - len(answer)) - 1
        logits = engine.forward(
            layout.window(new, masks, checkpoint.mask_id, engine.length), first=len(new) - 1
        )
        engine.commit(len(new))
        forwards += 1
        tokens = logits.argmax(-1)
        count = accepted(rule.scores(logits.softmax(-1), tokens).tolist(), tau)
        new = []
        for token in tokens[:count].tolist():
            new.append(token)
            if token in checkpoint.end_ids:
                return len(answer) + len(new), forwards
        answer += new
    return len(answer), forwards


def recorded(checkpoint: Checkpoint, prompt: str, request: Request) -> tuple[int, int]:
    run = decode(checkpoint, prompt, request).finish()
    return run.tokens, run.forwards


def methods(
    checkpoint: Checkpoint, taus: Sequence[float], limit: int
) -> dict[str, Callable[[str], tuple[int, int]]]:
    def ours(**settings):
        request = Request(max_new_tokens=limit, **settings)
        return lambda prompt: recorded(checkpoint, prompt, request)

    largest = checkpoint.largest_window
    chosen = {
        "transformers generate": lambda prompt: transformers_generate(checkpoint, prompt, limit),
        "ar": ours(mode="ar"),
        UNRECORDED: lambda prompt: unrecorded(checkpoint, prompt, largest, 0.95, limit),
        **{f"mars τ = {tau:g}": ours(mode="mars", tau=tau) for tau in sorted({0.95, *taus}, reverse=True)},
    }
    for slots in sorted({min(slots, largest) for slots in (4, 5, 6, 7, largest)}):
        for linear in (False, True):
            name = f"lossless, {slots - 1} drafts, {'linear' if linear else 'grouped'}"
            chosen[name] = ours(mode="lossless", window=slots, linear=linear)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-tiny")
    parser.add_argument("--prompts", type=int, default=36)
    parser.add_argument("--held-out", help="a file of prompts instead of those of the built-in worlds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--taus", type=float, nargs="*", default=[], help="more than 0.95")
    parser.add_argument("--max-new-tokens", type=int, default=160)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    checkpoint = load_checkpoint(arguments.model)
    if arguments.held_out:
        prompts = list(itertools.islice(distillation.prompts_from(arguments.held_out), arguments.prompts))
    else:
        per_task = max(1, arguments.prompts // len(tasks.TASKS))
        prompts = [e.prompt for name in tasks.TASKS for e in tasks.held_out(name, per_task)]
    machine = results.machine(checkpoint)
    timed = take_turns(
        methods(checkpoint, arguments.taus, arguments.max_new_tokens), prompts, arguments.rounds
    )
    rows = [
        {
            "method": name,
            "seconds": one.seconds,
            "tokens": sum(tokens for tokens, _ in one.found),
            "forwards": sum(forwards for _, forwards in one.found),
        }
        for name, one in timed.items()
    ]
    print(f"{machine}, {len(prompts)} held-out prompts, {arguments.rounds} rounds\n")
    print("| method | tokens per forward | faster than ar | ms per forward |\n|---|---|---|---|")
    for r in rows:
        faster = results.ranged(results.ratios(r["seconds"], timed["ar"].seconds), unit="×")
        ms = 1000 * median(r["seconds"]) / r["forwards"]
        print(f"| {r['method']} | {r['tokens'] / r['forwards']:.2f} | {faster} | {ms:.1f} |")
    slower = results.ratios(timed[UNRECORDED].seconds, timed[RECORDED].seconds)
    cost = results.ranged([100 * (ratio - 1) for ratio in slower], 1, " %")
    print(f"\nRecording every slot costs {cost} of the decoding time.")
    if arguments.output:
        size = {"prompts": len(prompts), "max_new_tokens": arguments.max_new_tokens}
        results.write(arguments.output, machine, size | {"rows": rows})


if __name__ == "__main__":
    main()
