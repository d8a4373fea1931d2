"""What a chat model has learned after how many tokens: right guesses per slot, and tokens per forward.

    python -m benchmarks.learning --models DIR DIR ... --base DIR/base --held-out DIR/held-out.jsonl

The checkpoints are those of one training, the earliest first; `recipe.json` in each says how many tokens it
has seen. Guesses are compared with the base's answers in the held-out file, which no training has seen.
Prints a Markdown table and writes its rows to `--output` as they are found. Everything is in bfloat16, as
checkpoints are saved.
"""

from __future__ import annotations

import argparse
import json
import random
from itertools import islice
from pathlib import Path

import torch

from benchmarks.chat import MAX_NEW_TOKENS, answer
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.models.chat import pad_id
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.training import corpus, distillation
from mars_demo.training.objective import Objective, Reference, mars_batch

TAU = 0.95
SIZE = 8  # conversations of a forward


def tokens_seen(folder: Path) -> int:
    """The clean tokens that a checkpoint was trained on, in all its trainings."""
    recipe = json.loads((folder / "recipe.json").read_text("utf-8"))
    return sum(one["tokens"] for one in recipe.get("trainings", [recipe]))


@torch.inference_mode()
def guesses(model: Checkpoint, base: Checkpoint, held_out: Path) -> dict:
    """The share of right guesses per slot, of the answers in a file of conversations, and how far, in nats
    per token, the model's distributions of slot 1 are from the base's."""
    objective = Objective(model.model, sft_weight=0.0, reference=Reference(base.model, 1.0))
    talks = [corpus.encode(model.tokenizer, messages) for messages in _messages(held_out)]
    counted, divergence, targets = 0, 0.0, 0
    for first in range(0, len(talks), SIZE):
        batch = mars_batch(
            talks[first : first + SIZE], model.block_size, model.tokenizer.mask_token_id,
            pad_id(model.tokenizer), random.Random(first),
        )  # fmt: skip
        losses = objective(batch)
        clean = float(batch.totals[0])
        counted = counted + losses["slots"][: model.block_size + 1]
        divergence, targets = divergence + clean * float(losses["reference"]), targets + clean
    return {
        "right": [right / count for count, _, right in counted.tolist()],
        "divergence": divergence / targets,
    }


def _messages(file: Path) -> list[list[dict]]:
    return [json.loads(line)["messages"] for line in file.read_text("utf-8").splitlines()]


def tokens_per_forward(model: Checkpoint, prompts: list[str], request: Request) -> float:
    runs = answer(model, prompts, len(prompts), request)
    return sum(run.tokens for run in runs) / sum(run.forwards for run in runs)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", type=Path, required=True, metavar="DIR")
    parser.add_argument("--base", required=True, help="a GGUF file, folder or hub id")
    parser.add_argument("--held-out", type=Path, required=True, help="a JSONL file of conversations")
    parser.add_argument("--limit", type=int, default=16, help="prompts that are answered")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    prompts = list(islice(distillation.prompts_from(str(arguments.held_out)), arguments.limit))
    base = load_checkpoint(arguments.base, dtype=torch.bfloat16)
    machine, found = results.machine(), []
    print("| million tokens | right guesses, slot by slot | from the base | τ = 0.95 | lossless |")
    print("|---|---|---|---|---|")
    for folder in arguments.models:
        model = load_checkpoint(str(folder), dtype=torch.bfloat16)
        row = {"tokens": tokens_seen(folder)} | guesses(model, base, arguments.held_out)
        limit = {"max_new_tokens": MAX_NEW_TOKENS}
        row["tau"] = tokens_per_forward(model, prompts, Request("mars", TAU, **limit))
        # Without copies, which no training changes.
        lossless = Request("lossless", linear=False, copies=0, **limit)
        row["lossless"] = tokens_per_forward(model, prompts, lossless)
        found.append(row)
        right = ", ".join(f"{share:.1%}" for share in row["right"])
        print(
            f"| {row['tokens'] / 1e6:.2f} | {right} | {row['divergence']:.3f} nats | {row['tau']:.2f} "
            f"| {row['lossless']:.2f} |",
            flush=True,
        )
        if arguments.output:
            results.write(arguments.output, machine, {"prompts": len(prompts), "rows": found})


if __name__ == "__main__":
    main()
