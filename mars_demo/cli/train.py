"""`train`: train a checkpoint further."""

import argparse
import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from transformers import HfArgumentParser

from mars_demo.cli.output import notice
from mars_demo.core.parser import Parser
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.export import card
from mars_demo.models.load import load_checkpoint
from mars_demo.models.mask_token import ensure_mask
from mars_demo.recipes import distillation
from mars_demo.training import states
from mars_demo.training.adapters import add_adapters
from mars_demo.training.bar import train
from mars_demo.training.config import MarsConfig
from mars_demo.training.metrics import logged, tokens_per_second
from mars_demo.training.trainer import MarsTrainer


class SettingsParser(HfArgumentParser, Parser):
    """transformers' parser of the fields of a dataclass, with the help and the errors of this program."""


PARENTS = [SettingsParser(MarsConfig, add_help=False)]


def register(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--base", required=True, help="bundled name, folder, GGUF file or hub id")
    add("--lora", type=int, metavar="RANK", help="train LoRA adapters, merged on saving")
    add("--prompts", metavar="FILE", help="prompts for --data self: a text or JSONL file, or tasks")
    add("--conversations", type=int, default=2000, metavar="N", help="answers for --data self")
    earlier = parser.add_mutually_exclusive_group().add_argument
    earlier("--resume", action="store_true", help="continue from the last saved state in the output folder")
    earlier("--overwrite", action="store_true", help="delete the saved states in the output folder")


def run(arguments: argparse.Namespace) -> None:
    has_others = int(os.environ.get("WORLD_SIZE", 1)) > 1
    if has_others and arguments.data == "self":
        raise ValueError(
            "--data self generates answers in one process. Generate them without accelerate launch, with "
            "--max-steps 1, and train several processes on the file self.jsonl in its output folder."
        )
    [config] = PARENTS[0].parse_dict(vars(arguments), allow_extra_keys=True)
    output = Path(config.output_dir)
    # All processes would load onto the first GPU; training moves each to its own.
    base = load_checkpoint(arguments.base, "cpu" if has_others else None, torch.float32)
    model, tokenizer = base.model, base.tokenizer
    if config.data == "self":
        config = replace(config, data=str(own_answers(base, arguments, output)))
    if arguments.lora is not None:
        if config.objective != "ar":
            ensure_mask(model, tokenizer)
        model = add_adapters(model, arguments.lora, tokenizer.mask_token_id)
    trainer = MarsTrainer(model, config, processing_class=tokenizer)
    with interruptible(trainer):
        if not train(trainer, resume=arguments.resume, overwrite=arguments.overwrite):
            raise KeyboardInterrupt
    if not trainer.is_world_process_zero():
        return
    if trainer.state.global_step or not (output / "recipe.json").exists():
        describe(config, base, output)
        notice(f"Saved {output}.")
    else:
        notice(f"{output} is already trained.")


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


def own_answers(base, arguments: argparse.Namespace, output: Path) -> Path:
    """Write the model's own answers to a file and return its path; an interrupted run resumes."""
    if arguments.conversations < 1:
        raise ValueError(f"--conversations must be at least 1, not {arguments.conversations}.")
    batch = 32 if base.model.device.type == "cpu" else 512
    path = output / "self.jsonl"
    prompts = (
        distillation.prompts_from(arguments.prompts)
        if arguments.prompts
        else distillation.self_prompts(base, batch)
    )
    with states.locked(output):
        distillation.write_answers(path, base, prompts, arguments.conversations, batch)
    return path
