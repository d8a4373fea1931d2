"""The chat model against its base: quality and speed on held-out prompts and verifiable instructions.

    python -m benchmarks.chat --base DIR/base --held-out DIR/held-out.jsonl [--model mars-smollm2-135m]
        [--limit 600] [--every 1] [--size 16] [--taus 0.95 0.8] [--output FILE]

The base (a GGUF file, folder or hub id) decodes greedily, the model as AR, at each τ and losslessly, in
batches of `--size`. They answer at most `--limit` held-out prompts and, with `--every N`, every Nth
verifiable instruction. Each row is written once measured.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

from benchmarks import report
from mars_demo.core.layout import causal
from mars_demo.core.trace import Run
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.runtime.engine import Engine
from mars_demo.recipes import distillation
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.tasks import instructions

FILE = "chat.json"
MAX_NEW_TOKENS = 192
COMPARED = 64  # tokens of an answer; after the first difference, two answers have little in common


@torch.inference_mode()
def agreement(checkpoint: Checkpoint, prompts: Sequence[str], runs: Sequence[Run]) -> float:
    """Return the next-token agreement of `checkpoint` with the base, whose answers are `runs`.

    It is the share of their first `COMPARED` tokens that are also the most probable ones for `checkpoint`,
    given the same tokens before them.
    """
    same = []
    for prompt, run in zip(prompts, runs):
        ids, prompt_ids = run.token_ids[:COMPARED], encode_prompt(checkpoint.tokenizer, prompt)
        layout = causal([*prompt_ids, *ids[:-1]])
        logits = Engine(checkpoint.decoder).forward(layout, first=len(prompt_ids) - 1)
        same.append(logits.argmax(-1).cpu() == torch.tensor(ids))
    return torch.cat(same).float().mean().item()


def rows(
    model: Checkpoint,
    base: Checkpoint,
    prompts: list[str],
    verifiable: list[instructions.Instruction],
    taus: list[float],
    size: int,
) -> Iterator[dict]:
    """Yield a row per way to decode; `checks` is the share of instructions followed."""
    ways = [
        ("base", base, Request("ar")),
        ("AR", model, Request("ar")),
        *((f"τ = {tau:g}", model, Request("mars", tau)) for tau in taus),
        ("lossless", model, Request("lossless")),
    ]
    first: list[Run] = []  # answers of the base
    own: list[Run] = []  # answers of the same model's AR
    for name, checkpoint, request in ways:
        runs = answer(checkpoint, prompts, size, request)
        first = first or runs
        own = runs if request.mode == "ar" else own
        row = {"method": name, "prompts": len(prompts), "checks": None, "agreement": None}
        row["tokens_per_forward"] = sum(run.tokens for run in runs) / sum(run.forwards for run in runs)
        row["equal"] = sum(run.token_ids == alone.token_ids for run, alone in zip(runs, own))
        if name != "lossless":  # lossless gives the answers of AR
            answers = answer(checkpoint, [one.prompt for one in verifiable], size, request)
            followed = [one.holds(run.text) for one, run in zip(verifiable, answers)]
            row["checks"] = sum(followed) / len(followed)
        if request.mode == "ar":
            row["agreement"] = agreement(checkpoint, prompts, first)
        yield row


def answer(checkpoint: Checkpoint, prompts: list[str], size: int, request: Request) -> list[Run]:
    # Fitted to the window of a single sequence: in a batch, lossless would draft less.
    request = replace(request, max_new_tokens=MAX_NEW_TOKENS).fitted(checkpoint)
    return decode_batch(checkpoint, prompts, request, size=size).finish().runs


def measure(
    model: str, base: str, held_out: str, limit: int, every: int, size: int, taus: list[float], output: Path
) -> None:  # fmt: skip
    tuned, plain = (load_checkpoint(name, dtype=torch.float32) for name in (model, base))
    prompts = list(islice(distillation.prompts_from(held_out), limit))
    verifiable = instructions.instructions()[::every]
    record = {"prompts": len(prompts), "instructions": len(verifiable), "rows": []}
    for row in rows(tuned, plain, prompts, verifiable, taus, size):
        record["rows"].append(row)
        results.save_results(output, results.machine(tuned), record)


def table(file: str | Path = FILE) -> str:
    measured = results.read_results(file)
    share = "{:.1%}".format
    shown = [
        {
            "answers": row["method"],
            "tokens per forward": f"{row['tokens_per_forward']:.2f}",
            "verifiable instructions followed": row["checks"] and share(row["checks"]),
            "next-token agreement with the base": row["agreement"] and share(row["agreement"]),
            "answers equal to AR": None
            if row["method"] == "base"
            else f"{row['equal']} of {row['prompts']}",
        }
        for row in measured["rows"]
    ]
    size = f"{measured['prompts']} held-out prompts, {measured['instructions']} verifiable instructions"
    return report.shown(shown) + report.source(measured, size)


if __name__ == "__main__":
    report.run(
        measure, table, FILE,
        model="mars-smollm2-135m", base=str, held_out=str, limit=600, every=1, size=16, taus=[0.95, 0.8],
    )  # fmt: skip
