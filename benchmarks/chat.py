"""What a MARS chat model keeps of its base and what it gains, on held-out prompts and checked instructions.

    python -m benchmarks.chat --model DIR/mars-smollm2-135m --base DIR/base --held-out DIR/held-out.jsonl

The base answers everything greedily, the model as AR, at each τ and losslessly. Prints a Markdown table and
writes its rows to `--output` as they are found.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import torch

from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.evaluation import results
from mars_demo.evaluation.fidelity import Reference
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.tasks import instructions
from mars_demo.training import distillation

MAX_NEW_TOKENS = 192
TAUS = (0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)


@dataclass(frozen=True)
class Row:
    """One way to answer the `prompts` held-out prompts and all instructions.

    `log_likelihood` is the base's, nats per token; `prefix` and `agreement` are those of
    `fidelity.Reference` with the base, the latter of AR alone; `checks` the share of instructions whose
    checks hold; `equal` how many answers to held-out prompts are those of the same model's AR.
    """

    method: str
    tau: float | None
    prompts: int
    tokens_per_forward: float
    log_likelihood: float
    prefix: float
    checks: float | None
    equal: int
    seconds: float
    agreement: float | None = None


def answer(checkpoint: Checkpoint, prompts: list[str], size: int, request: Request) -> list[Run]:
    request = request.fitted(checkpoint)  # with its window as alone, where a batch would draft less
    return decode_batch(checkpoint, prompts, request, size=size).finish().runs


def share_held(checked: list[instructions.Instruction], answers: list[Run]) -> float | None:
    """The share of instructions that their answers follow; None without answers."""
    held = [instruction.holds(run.text) for instruction, run in zip(checked, answers)]
    return sum(held) / len(held) if held else None


def rows(
    model: Checkpoint,
    base: Checkpoint,
    prompts: list[str],
    checked: list[instructions.Instruction],
    taus: list[float],
    size: int,
) -> Iterator[Row]:
    asked = [instruction.prompt for instruction in checked]
    reference = Reference(base, prompts, size, MAX_NEW_TOKENS)
    limit = {"max_new_tokens": MAX_NEW_TOKENS}
    ways = [
        ("base", base, Request("ar", **limit)),
        ("AR", model, Request("ar", **limit)),
        *((f"τ = {tau:g}", model, Request("mars", tau, **limit)) for tau in taus),
        ("lossless", model, Request("lossless", **limit)),
    ]
    own: list[Run] = []
    for name, checkpoint, request in ways:
        started = time.perf_counter()
        runs = reference.runs if name == "base" else answer(checkpoint, prompts, size, request)
        own = runs if request.mode == "ar" else own
        # Those of lossless are those of AR.
        answers = [] if name == "lossless" else answer(checkpoint, asked, size, request)
        yield Row(
            method=name,
            tau=request.acceptance.threshold(),
            prompts=len(prompts),
            tokens_per_forward=sum(run.tokens for run in runs) / sum(run.forwards for run in runs),
            log_likelihood=reference.log_likelihood(runs),
            prefix=reference.prefix(runs),
            checks=share_held(checked, answers),
            equal=sum(run.token_ids == alone.token_ids for run, alone in zip(runs, own)),
            seconds=time.perf_counter() - started,
            agreement=reference.agreement(checkpoint) if request.mode == "ar" else None,
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-smollm2-135m")
    parser.add_argument("--base", required=True, help="a GGUF file, folder or hub id")
    parser.add_argument(
        "--held-out", required=True, help="a JSONL file of conversations, or of a line each"
    )
    parser.add_argument("--limit", type=int, default=600, help="held-out prompts at most")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="of the checked instructions")
    parser.add_argument("--size", type=int, default=16, help="rows of a batch")
    parser.add_argument("--taus", type=float, nargs="*", default=TAUS)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    dtype = getattr(torch, arguments.dtype)
    model, base = (load_checkpoint(name, dtype=dtype) for name in (arguments.model, arguments.base))
    prompts = list(islice(distillation.prompts_from(arguments.held_out), arguments.limit))
    print(
        "| answers | tokens per forward | log-likelihood by the base | same choice | same prefix | checks "
        "| equal to AR |"
    )
    print("|---|---|---|---|---|---|---|")
    machine, found = results.machine(model), []
    checked = instructions.instructions()[:: arguments.every]
    for row in rows(model, base, prompts, checked, arguments.taus, arguments.size):
        found.append(asdict(row))
        same, passed = ("" if share is None else f"{share:.1%}" for share in (row.agreement, row.checks))
        print(
            f"| {row.method} | {row.tokens_per_forward:.2f} | {row.log_likelihood:.3f} | {same} "
            f"| {row.prefix:.1%} | {passed} | {row.equal} of {row.prompts} |",
            flush=True,
        )
        if arguments.output:
            size = {"prompts": len(prompts), "instructions": len(checked)}
            results.write(arguments.output, machine, size | {"rows": found})


if __name__ == "__main__":
    main()
