"""`train`: train a checkpoint further."""

import argparse
import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NoReturn

import torch
from transformers import HfArgumentParser

from mars_demo.cli.output import notice
from mars_demo.core.modes import objectives
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.export import card
from mars_demo.models.load import load_checkpoint
from mars_demo.models.mask_token import ensure_mask
from mars_demo.recipes import distillation
from mars_demo.training.adapters import add_adapters
from mars_demo.training.bar import train
from mars_demo.training.config import MarsConfig
from mars_demo.training.metrics import logged, tokens_per_second
from mars_demo.training.trainer import MarsTrainer

OPTIONS = {  # for each option: the field of `MarsConfig`, its type (None for a switch), metavar and help
    "--block-size": ("block_size", int, "B", "masks per block, 2 to 32"),
    "--sft-weight": ("sft_weight", float, "λ", "weight of the clean stream's loss"),
    "--reference": ("reference", str, "MODEL", "model whose distributions the clean stream should match"),
    "--reference-weight": ("reference_weight", float, "μ", "weight of KL(reference ‖ clean)"),
    "--fixed-blocks": ("fixed_blocks", None, None, "no random block phase"),
    "--slot-decay": ("slot_decay", float, "γ", "loss weight of a slot relative to the previous one"),
    "--data": (
        "data", str, "DATA", "tasks, skills, tasks:NAME,NAME, FILE.jsonl, a hub id, several with +, or self"
    ),
    "--steps": ("max_steps", int, "N", "optimizer steps"),
    "--minutes": ("minutes", float, "M", "train for this time instead of --steps"),
    "--batch-tokens": ("batch_tokens", int, "N", "clean positions per batch, padding included"),
    "--packed": ("packed", int, "N", "positions of both streams per batch of a constant shape, instead"),
    "--accumulate": ("gradient_accumulation_steps", int, "N", "batches per step and process"),
    "--workers": ("dataloader_num_workers", int, "N", "processes that make batches"),
    "--max-length": ("max_length", int, "N", "leave out longer conversations"),
    "--learning-rate": ("learning_rate", float, "LR", "highest learning rate of AdamW"),
    "--muon-learning-rate": ("muon_learning_rate", float, "LR", "train the hidden matrices by Muon"),
    "--gradient-checkpointing": ("activation_checkpointing", None, None, "use less memory, more time"),
    "--compile": ("compile", None, None, "compile the layers; needs a C++ compiler"),
    "--seed": ("seed", int, "N", "seed of the order of the data and of the block phases"),
    "--save-every": ("save_steps", int, "N", "steps between saved states"),
}  # fmt: skip


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base", required=True, help="bundled name, folder, GGUF file or hub id")
    defaults = {field.name: field.default for field in fields(MarsConfig)}
    parser.add_argument(
        "--objective", choices=objectives(), default=defaults["objective"], help="training objective"
    )
    for option, (field, kind, value, about) in OPTIONS.items():
        settings = {"type": kind, "metavar": value} if kind else {"action": "store_true"}
        parser.add_argument(option, dest=field, default=defaults[field], help=about, **settings)
    parser.add_argument("--lora", type=int, metavar="RANK", help="train LoRA adapters, merged on saving")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE",
        help="other fields of transformers' TrainingArguments, such as report_to=trackio",
    )  # fmt: skip
    parser.add_argument(
        "--prompts", metavar="FILE", help="prompts for --data self: a text or JSONL file, or tasks"
    )
    parser.add_argument(
        "--conversations", type=int, default=2000, metavar="N", help="answers for --data self"
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to create")
    parser.add_argument("--resume", action="store_true", help="continue from the last saved state in DIR")


def run(arguments: argparse.Namespace) -> None:
    has_others = int(os.environ.get("WORLD_SIZE", 1)) > 1
    if has_others and arguments.data == "self":
        raise ValueError(
            "--data self generates answers in one process. Generate them without accelerate launch, with "
            "--steps 1, and train several processes on the file self.jsonl in its output folder."
        )
    config = config_of(arguments)
    # All processes would load onto the first GPU; training moves each to its own.
    base = load_checkpoint(arguments.base, "cpu" if has_others else None, torch.float32)
    model, tokenizer = base.model, base.tokenizer
    if config.data == "self":
        config = replace(config, data=str(own_answers(base, arguments)))
    if arguments.lora is not None:
        if config.objective != "ar":
            ensure_mask(model, tokenizer)
        model = add_adapters(model, arguments.lora, tokenizer.mask_token_id)
    trainer = MarsTrainer(model, config, processing_class=tokenizer)
    with interruptible(trainer):
        if not train(trainer, arguments.resume):
            raise KeyboardInterrupt
    if not trainer.is_world_process_zero():
        return
    if trainer.state.global_step or not (arguments.output / "recipe.json").exists():
        describe(config, base, arguments.output)
        notice(f"Saved {arguments.output}.")
    else:
        notice(f"{arguments.output} is already trained.")


def config_of(arguments: argparse.Namespace) -> MarsConfig:
    """Return the settings of the command.

    Raises:
        ValueError: if a setting is unknown or out of range.
    """
    names = ("objective", *(field for field, *_ in OPTIONS.values()))
    given = {name: getattr(arguments, name) for name in names}
    return MarsConfig(str(arguments.output), **given | others(arguments.set))


def others(pairs: Sequence[str]) -> dict[str, Any]:
    """Return fields of `MarsConfig` given as NAME=VALUE, converted to their types.

    Raises:
        ValueError: if a field is unknown or a value has another type.
    """
    parser = HfArgumentParser(MarsConfig, allow_abbrev=False)
    parser.error = _reject
    given = parser.parse_args(["--output_dir", "", *(f"--{pair}" for pair in pairs)])
    names = {pair.partition("=")[0].replace("-", "_") for pair in pairs}
    return {name: value for name, value in vars(given).items() if name in names}


def _reject(message: str) -> NoReturn:
    raise ValueError(f"--set: {message}")


@contextlib.contextmanager
def interruptible(trainer: MarsTrainer) -> Iterator[None]:
    """End the training after its step and save its state at Ctrl-C, and at once at the second one."""

    def stop(*_) -> None:
        trainer.stop()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def describe(config: MarsConfig, base: Checkpoint, output: Path) -> None:
    """Write the recipe and card of a checkpoint, with the speed and the last losses of its training."""
    steps = logged(output)
    facts = {"tokens": steps[-1].tokens, "tokens_per_second": round(tokens_per_second(steps))}
    card.write_recipe(output, base, config.record() | facts | steps[-1].losses)


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
    distillation.write_answers(path, base, prompts, arguments.conversations, batch)
    return path
