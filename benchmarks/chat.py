"""The chat model against its base: quality and speed on held-out prompts and verifiable instructions.

    python -m benchmarks.chat --model DIR/mars-smollm2-135m --base DIR/base --held-out DIR/held-out.jsonl

The base decodes greedily, the model as AR, at each τ and losslessly. Each row is written once measured.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import torch

from benchmarks import tables
from mars_demo.decoding.engine import Engine
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.evaluation import results
from mars_demo.layout import causal
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.names import CHAT
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.tasks import instructions
from mars_demo.training import distillation

FILE = "chat.json"
MAX_NEW_TOKENS = 192
COMPARED = 64  # tokens of an answer; after the first difference, two answers have little in common
TAUS = (0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)


@dataclass(frozen=True)
class Row:
    """The results of one way to decode.

    `log_likelihood` of the answers is by the base, in nats per token; `checks` is the share of instructions
    followed; `equal` counts answers to held-out prompts that equal the same model's AR; `agreement` with
    the base is defined in `Reference`, and measured only for AR.
    """

    method: str
    tau: float | None
    prompts: int
    tokens_per_forward: float
    log_likelihood: float
    checks: float | None
    equal: int
    seconds: float
    agreement: float | None = None


class Reference:
    """A model with its greedy answers to prompts, for comparison with other models."""

    def __init__(self, checkpoint: Checkpoint, prompts: list[str], size: int):
        self.checkpoint, self.prompts = checkpoint, prompts
        self.runs = answer(checkpoint, prompts, size, Request("ar", max_new_tokens=MAX_NEW_TOKENS))

    def log_likelihood(self, runs: list[Run]) -> float:
        """Return the reference's mean log-likelihood of these answers, in nats per token."""
        scores = [
            _logits(self.checkpoint, prompt, run.token_ids).log_softmax(-1)[
                range(run.tokens), run.token_ids
            ]
            for prompt, run in zip(self.prompts, runs)
        ]
        return torch.cat(scores).mean().item()

    def agreement(self, checkpoint: Checkpoint) -> float:
        """Return the next-token agreement of `checkpoint` with the reference.

        It is the share of the first `COMPARED` tokens of the reference's answers that are also the most
        probable ones for `checkpoint`, given the same tokens before them.
        """
        same = []
        for prompt, run in zip(self.prompts, self.runs):
            ids = run.token_ids[:COMPARED]
            choices = _logits(checkpoint, prompt, ids).argmax(-1)
            same.append(choices == torch.tensor(ids, device=choices.device))
        return torch.cat(same).float().mean().item()


@torch.inference_mode()
def _logits(checkpoint: Checkpoint, prompt: str, answer: list[int]) -> torch.Tensor:
    """Return the [len(answer), vocabulary] float32 logits of an answer's tokens."""
    prompt_ids = encode_prompt(checkpoint.tokenizer, prompt)
    layout = causal([*prompt_ids, *answer[:-1]])
    return Engine(checkpoint.decoder).forward(layout, first=len(prompt_ids) - 1)


def answer(checkpoint: Checkpoint, prompts: list[str], size: int, request: Request) -> list[Run]:
    request = request.fitted(checkpoint)  # with the window of a single sequence; a batch would draft less
    return decode_batch(checkpoint, prompts, request, size=size).finish().runs


def share_followed(verifiable: list[instructions.Instruction], answers: list[Run]) -> float | None:
    """Return the share of instructions that their answers follow; None without answers."""
    followed = [instruction.holds(run.text) for instruction, run in zip(verifiable, answers)]
    return sum(followed) / len(followed) if followed else None


def rows(
    model: Checkpoint,
    base: Checkpoint,
    prompts: list[str],
    verifiable: list[instructions.Instruction],
    taus: list[float],
    size: int,
) -> Iterator[Row]:
    questions = [instruction.prompt for instruction in verifiable]
    reference = Reference(base, prompts, size)
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
        # Lossless gives the answers of AR.
        answers = [] if name == "lossless" else answer(checkpoint, questions, size, request)
        yield Row(
            method=name,
            tau=request.acceptance.threshold(),
            prompts=len(prompts),
            tokens_per_forward=sum(run.tokens for run in runs) / sum(run.forwards for run in runs),
            log_likelihood=reference.log_likelihood(runs),
            checks=share_followed(verifiable, answers),
            equal=sum(run.token_ids == alone.token_ids for run, alone in zip(runs, own)),
            seconds=time.perf_counter() - started,
            agreement=reference.agreement(checkpoint) if request.mode == "ar" else None,
        )


def measure(
    model: str, base: str, held_out: str, limit: int, every: int, size: int, taus: list[float], dtype: str,
    output: Path,
) -> None:  # fmt: skip
    tuned, plain = (load_checkpoint(name, dtype=getattr(torch, dtype)) for name in (model, base))
    prompts = list(islice(distillation.prompts_from(held_out), limit))
    verifiable = instructions.instructions()[::every]
    record = {"prompts": len(prompts), "instructions": len(verifiable), "rows": []}
    for row in rows(tuned, plain, prompts, verifiable, taus, size):
        record["rows"].append(asdict(row))
        results.write(output, results.machine(tuned), record)


def table(file: str | Path = FILE) -> str:
    measured = results.read(file)
    shown = [
        {
            "answers": row["method"],
            "tokens per forward": f"{row['tokens_per_forward']:.2f}",
            "verifiable instructions followed": _share(row["checks"]),
            "next-token agreement with the base": _share(row["agreement"]),
            "log-likelihood by the base": f"{row['log_likelihood']:.3f}",
            "answers equal to AR": None
            if row["method"] == "base"
            else f"{row['equal']} of {row['prompts']}",
        }
        for row in measured["rows"]
    ]
    size = f"{measured['prompts']} held-out prompts, {measured['instructions']} verifiable instructions"
    return tables.shown(shown) + tables.source(measured, size)


def _share(value: float | None) -> str | None:
    return None if value is None else f"{value:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=CHAT)
    parser.add_argument("--base", required=True, help="a GGUF file, folder or hub id")
    parser.add_argument(
        "--held-out", required=True, help="a JSONL file of conversations, or a text file of prompts"
    )
    parser.add_argument("--limit", type=int, default=600, help="most held-out prompts")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="use every Nth instruction")
    parser.add_argument("--size", type=int, default=16, help="sequences of a batch")
    parser.add_argument("--taus", type=float, nargs="*", default=TAUS)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
