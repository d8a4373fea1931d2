"""Wall-clock time of single prompts, as ratios to AR in the same run.

    python -m benchmarks.speed [--model mars-tiny] [--prompts 36] [--held-out FILE] [--rounds 3]
        [--taus 0.95] [--max-new-tokens 160] [--output FILE]

Every method answers every prompt in every round. Methods take turns prompt by prompt, so that a slow moment
of the machine affects all of them.
"""

import argparse
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from benchmarks import tables
from benchmarks.timing import take_turns
from mars_demo import layout, tasks
from mars_demo.decoding.acceptance import Acceptance, accepted
from mars_demo.decoding.decode import decode
from mars_demo.decoding.engine import Engine
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results, throughput
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.names import TINY
from mars_demo.training import distillation

FILE = "speed.json"
RECORDED, UNRECORDED = "mars τ = 0.95", "mars τ = 0.95, nothing recorded"
Answer = Callable[[str], tuple[int, int]]  # from a prompt to the numbers of tokens and forwards


def transformers_generate(checkpoint: Checkpoint, prompt: str, limit: int) -> tuple[int, int]:
    *_, result = throughput.generating(checkpoint, [prompt], 1, limit)
    return result.tokens, result.forwards


def unrecorded(checkpoint: Checkpoint, prompt: str, slots: int, tau: float, limit: int) -> tuple[int, int]:
    """Decode with the sliding window and keep only tokens, to measure the cost of recording."""
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


def methods(checkpoint: Checkpoint, taus: Sequence[float], limit: int) -> dict[str, Answer]:
    def ours(**settings) -> Answer:
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


def measure(
    model: str, prompts: int, held_out: str | None, rounds: int, taus: list[float], max_new_tokens: int,
    output: Path,
) -> None:  # fmt: skip
    checkpoint = load_checkpoint(model)
    if held_out:
        answered = list(itertools.islice(distillation.prompts_from(held_out), prompts))
    else:
        per_task = max(1, prompts // len(tasks.TASKS))
        answered = [e.prompt for name in tasks.TASKS for e in tasks.held_out(name, per_task)]
    timed = take_turns(methods(checkpoint, taus, max_new_tokens), answered, rounds)
    rows = [{"method": name} | one.counts() for name, one in timed.items()]
    size = {"prompts": len(answered), "max_new_tokens": max_new_tokens}
    results.write(output, results.machine(checkpoint), size | {"rows": rows})


def table(file: str | Path = FILE) -> str:
    measured = results.read(file)
    seconds = {row["method"]: row["seconds"] for row in measured["rows"]}
    rows = [
        {
            "method": row["method"],
            "tokens per forward": tables.per_forward(row),
            "faster than ar": tables.faster(row["seconds"], seconds["ar"]),
            "ms per forward": f"{1000 * median(row['seconds']) / row['forwards']:.1f}",
        }
        for row in measured["rows"]
    ]
    ratios = results.ratios(seconds.pop(UNRECORDED), seconds[RECORDED])
    cost = results.ranged([100 * (ratio - 1) for ratio in ratios], 1, " %")
    best, *tied = tables.fastest(seconds)
    also = f"; at least as fast in some round: {tables.listed(tied)}" if tied else ", in every round"
    return (
        tables.shown(rows)
        + f"\n\nSmallest median time: {best}{also}. Recording every slot of every forward costs "
        f"{cost} of the decoding time."
        + tables.source(measured, tables.prompts(measured), tables.rounds(measured))
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=TINY)
    parser.add_argument("--prompts", type=int, default=36)
    parser.add_argument("--held-out", help="a file of prompts instead of those of the built-in tasks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--taus", type=float, nargs="*", default=[], help="further τ beside 0.95")
    parser.add_argument("--max-new-tokens", type=int, default=160)
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
