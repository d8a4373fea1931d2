"""`train`: train a checkpoint further."""

import argparse
import json
import os
import re
from dataclasses import asdict, fields, replace
from pathlib import Path

import torch

from mars_demo.cli.output import notice
from mars_demo.export import card
from mars_demo.export.push import push
from mars_demo.models.load import load_checkpoint
from mars_demo.progress import progress, training_bar
from mars_demo.training import distillation
from mars_demo.training.loop import train
from mars_demo.training.recipe import OBJECTIVES, Recipe

OPTIONS = {  # for each field of `Recipe`: the metavar, or None for a switch, and the help
    "block_size": ("B", "masks per block, 2 to 32"),
    "sft_weight": ("λ", "weight of the clean stream's loss (default: 1)"),
    "kl_weight": ("κ", "weight of KL(clean ‖ noisy) (default: 0)"),
    "reference": ("MODEL", "model whose distributions the clean stream should match"),
    "reference_weight": ("μ", "weight of KL(reference ‖ clean)"),
    "fixed_blocks": (None, "no random block phase"),
    "whole_copy": (None, "copy the prompt too, as in the paper"),
    "slot_decay": ("γ", "loss weight of a slot relative to the previous one (default: 1)"),
    "data": ("DATA", "tasks, skills, tasks:NAME,NAME, FILE.jsonl, a hub id, several with +, or self"),
    "steps": ("N", None),
    "batch_tokens": ("N", "clean positions per batch, padding included"),
    "accumulate": ("N", "batches per step and process"),
    "max_length": ("N", "leave out longer conversations"),
    "learning_rate": ("LR", None),
    "muon_learning_rate": ("LR", "train the hidden matrices by Muon, at this rate"),
    "final_learning_rate": ("LR", "final rate of the cosine (default: 0)"),
    "mask_learning_rate": ("LR", "learning rate of a separate mask vector"),
    "mask_head_start": ("SHARE", "share of the run in which only the mask vector learns"),
    "gradient_checkpointing": (None, "use less memory, more time"),
    "compile": (None, "compile the layers; needs a C++ compiler"),
    "lora": ("RANK", "train LoRA adapters, merged on saving"),
    "seed": ("N", None),
    "save_every": ("N", "steps between saved states"),
}
KINDS = {"int": int, "float": float}


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base", required=True, help="bundled name, folder, GGUF file or hub id")
    parser.add_argument("--objective", choices=OBJECTIVES, help="default: mars")
    types = {field.name: field.type.partition(" ")[0] for field in fields(Recipe)}
    for name, (value, about) in OPTIONS.items():
        kind = {"type": KINDS.get(types[name], str), "metavar": value}
        switch = {"action": "store_true", "default": None}
        parser.add_argument(f"--{name.replace('_', '-')}", help=about, **(kind if value else switch))
    parser.add_argument(
        "--no-sft-loss", dest="sft_weight", action="store_const", const=0.0, help="same as --sft-weight 0"
    )
    parser.add_argument(
        "--prompts", metavar="FILE", help="prompts for --data self: a text or JSONL file, or tasks"
    )
    parser.add_argument("--conversations", type=int, default=2000, metavar="N", help="for --data self")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--resume", action="store_true", help="continue from the last saved state in DIR")
    parser.add_argument("--push-to-hub", metavar="OWNER/NAME", help="upload DIR after training")


def run(arguments: argparse.Namespace) -> None:
    if arguments.push_to_hub and not re.fullmatch(r"[\w.-]+/[\w.-]+", arguments.push_to_hub):
        raise ValueError(f"--push-to-hub takes OWNER/NAME, not {arguments.push_to_hub!r}.")
    given = {field.name: getattr(arguments, field.name, None) for field in fields(Recipe)}
    recipe = Recipe(**{name: value for name, value in given.items() if value is not None})
    has_others = int(os.environ.get("WORLD_SIZE", 1)) > 1
    if has_others and recipe.data == "self":
        raise ValueError(
            "--data self generates answers in one process. Generate them without accelerate launch, with "
            "--steps 1, and train several processes on the file self.jsonl in its output folder."
        )
    # All processes would load onto the first GPU; training moves each to its own.
    base = load_checkpoint(arguments.base, "cpu" if has_others else None, torch.float32)
    if recipe.data == "self":
        recipe = replace(recipe, data=str(own_answers(base, arguments)))
    steps = train(base.model, base.tokenizer, recipe, arguments.output, arguments.resume)
    trained = [metrics.step for metrics in training_bar(steps, recipe.steps, arguments.output.name)]
    if int(os.environ.get("RANK", 0)):
        return  # the main process writes
    if trained or not (arguments.output / "recipe.json").exists():
        describe(recipe, arguments.base, arguments.output)
        notice(f"Saved {arguments.output}.")
    else:
        notice(f"{arguments.output} is already trained.")
    if arguments.push_to_hub:
        push(arguments.output, arguments.push_to_hub, ignore_patterns=["*.jsonl"])  # logs and data
        notice(f"Pushed to {arguments.push_to_hub}.")


def describe(recipe: Recipe, base: str, output: Path) -> None:
    """Write the recipe of a checkpoint next to it, with the speed of its last training process."""
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    last = lines[-1]
    restarts = [n for n in range(1, len(lines)) if lines[n]["seconds"] < lines[n - 1]["seconds"]]
    first = lines[restarts[-1] if restarts else 0]
    speed = (last["tokens"] - first["tokens"]) / max(1e-9, last["seconds"] - first["seconds"])
    facts = {"base": base, "tokens": last["tokens"], "tokens_per_second": round(speed)}
    losses = {name: last[name] for name in ("clean", "noisy", "kl", "reference") if name in last}
    record = json.dumps(asdict(recipe) | facts | losses, indent=1) + "\n"
    (output / "results.json").unlink(missing_ok=True)  # belonged to the previous weights
    unfinished = output / "unfinished-recipe.json"
    unfinished.write_text(record, encoding="utf-8")
    os.replace(unfinished, output / "recipe.json")
    card.write(output)


def own_answers(base, arguments: argparse.Namespace) -> Path:
    """Write the model's own answers to a file and return its path; an interrupted run resumes."""
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
