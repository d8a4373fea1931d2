"""`train`: train a checkpoint further."""

from __future__ import annotations

import argparse
import json
import os
import re
from dataclasses import asdict, fields, replace
from pathlib import Path

from mars_demo.cli.output import notice
from mars_demo.progress import progress, training_bar
from mars_demo.training.recipe import OBJECTIVES, Recipe


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base", required=True, help="bundled name, folder, GGUF file or hub id")
    parser.add_argument("--objective", choices=OBJECTIVES, default="mars")
    parser.add_argument("--block-size", type=int, default=8, metavar="B", help="masks per block, 2 to 32")
    parser.add_argument(
        "--sft-weight", type=float, metavar="λ", help="of the clean stream's loss (default 1)"
    )
    parser.add_argument(
        "--no-sft-loss", dest="sft_weight", action="store_const", const=0.0, help="the same as λ = 0"
    )
    parser.add_argument("--kl-weight", type=float, metavar="κ", help="of KL(clean ‖ noisy) (default 0)")
    parser.add_argument(
        "--reference", metavar="MODEL", help="whose distributions the clean stream is to keep"
    )
    parser.add_argument("--reference-weight", type=float, metavar="μ", help="of KL(reference ‖ clean)")
    parser.add_argument("--fixed-blocks", action="store_true", default=None, help="no random block phase")
    parser.add_argument(
        "--whole-copy",
        action="store_true",
        default=None,
        help="a noisy copy of the prompt too, as in the paper",
    )
    parser.add_argument(
        "--slot-decay", type=float, metavar="γ", help="what a slot counts of the one before (default 1)"
    )
    parser.add_argument(
        "--data",
        default="tasks",
        help="tasks, skills, tasks:NAME,NAME, FILE.jsonl, a hub id, several with + between, or self",
    )
    parser.add_argument(
        "--prompts", metavar="FILE", help="with --data self: a text or JSONL file, or tasks"
    )
    parser.add_argument("--conversations", type=int, default=2000, metavar="N", help="with --data self")
    parser.add_argument("--steps", type=int, metavar="N")
    parser.add_argument(
        "--batch-tokens", type=int, metavar="N", help="clean positions per batch, with padding"
    )
    parser.add_argument("--accumulate", type=int, metavar="N", help="batches per step and process")
    parser.add_argument("--max-length", type=int, metavar="N", help="longer conversations are left out")
    parser.add_argument("--learning-rate", type=float, metavar="LR")
    parser.add_argument("--final-learning-rate", type=float, metavar="LR", help="of the cosine (default 0)")
    parser.add_argument(
        "--mask-learning-rate", type=float, metavar="LR", help="a vector of its own for the mask token"
    )
    parser.add_argument(
        "--mask-head-start", type=float, metavar="SHARE", help="of the run, in which the mask learns alone"
    )
    parser.add_argument(
        "--gradient-checkpointing", action="store_true", default=None, help="slower, less memory"
    )
    parser.add_argument(
        "--compile", action="store_true", default=None, help="faster after a minute; needs a C++ compiler"
    )
    parser.add_argument("--lora", type=int, metavar="RANK", help="train adapters, merged on saving")
    parser.add_argument("--seed", type=int, metavar="N")
    parser.add_argument("--save-every", type=int, metavar="N", help="steps between saved states")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--resume", action="store_true", help="continue from the last saved state in DIR")
    parser.add_argument("--push-to-hub", metavar="OWNER/NAME", help="upload DIR when training is done")


def run(arguments: argparse.Namespace) -> None:
    import torch

    from mars_demo.export.push import push
    from mars_demo.models.load import load_checkpoint
    from mars_demo.training.loop import train

    if arguments.push_to_hub and not re.fullmatch(r"[\w.-]+/[\w.-]+", arguments.push_to_hub):
        raise ValueError(f"--push-to-hub takes OWNER/NAME, not {arguments.push_to_hub!r}.")
    given = {field.name: getattr(arguments, field.name, None) for field in fields(Recipe)}
    recipe = Recipe(**{name: value for name, value in given.items() if value is not None})
    base = load_checkpoint(arguments.base, dtype=torch.float32)
    if recipe.data == "self":
        recipe = replace(recipe, data=str(own_answers(base, arguments)))
    steps = train(base.model, base.tokenizer, recipe, arguments.output, arguments.resume)
    trained = [metrics.step for metrics in training_bar(steps, recipe.steps, arguments.output.name)]
    if int(os.environ.get("RANK", 0)):
        return  # another process writes
    if trained or not (arguments.output / "recipe.json").exists():
        describe(recipe, arguments.base, arguments.output)
        notice(f"Saved {arguments.output}.")
    else:
        notice(f"{arguments.output} is trained already.")
    if arguments.push_to_hub:
        push(arguments.output, arguments.push_to_hub)
        notice(f"Pushed to {arguments.push_to_hub}.")


def describe(recipe: Recipe, base: str, output: Path) -> None:
    """Write next to a checkpoint how it was trained, from the metrics of the process that trained last."""
    from mars_demo.export import card

    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    last = lines[-1]
    begun = [n for n in range(1, len(lines)) if lines[n]["seconds"] < lines[n - 1]["seconds"]]
    first = lines[begun[-1] if begun else 0]
    speed = (last["tokens"] - first["tokens"]) / max(1e-9, last["seconds"] - first["seconds"])
    measured = {"base": base, "tokens": last["tokens"], "tokens_per_second": round(speed)}
    losses = {name: last[name] for name in ("clean", "noisy", "kl", "reference") if name in last}
    record = json.dumps(asdict(recipe) | measured | losses, indent=1) + "\n"
    (output / "results.json").unlink(missing_ok=True)  # of the weights that were here before
    unfinished = output / "unfinished-recipe.json"
    unfinished.write_text(record, encoding="utf-8")
    os.replace(unfinished, output / "recipe.json")
    card.write(output)


def own_answers(base, arguments: argparse.Namespace) -> Path:
    """The file of the model's own answers. Answers of an interrupted run are kept."""
    from mars_demo.training import distillation

    if arguments.conversations < 1:
        raise ValueError(f"--conversations must be at least 1, not {arguments.conversations}.")
    batch = 32 if base.model.device.type == "cpu" else 512
    path = arguments.output / "self.jsonl"
    prompts = (
        distillation.prompts_from(arguments.prompts)
        if arguments.prompts
        else distillation.self_prompts(base, batch)
    )
    written = distillation.write(path, base, prompts, arguments.conversations, batch)
    for _ in progress(written, arguments.conversations, path.name, "answer", reached=int):
        pass
    return path
