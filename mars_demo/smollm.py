"""MARS-SmolLM2-135M from its base: its own answers as data, MARS training, packed weights.

    python -m mars_demo.smollm --base SmolLM2-135M-Instruct.Q4_1.gguf --output DIR

needs an NVIDIA GPU for the full recipe; `--small` proves it on a CPU in minutes. A cut run goes on where it
was when called again; `--stage` runs one stage alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tqdm import tqdm

from mars_demo import checkpoints, distillation
from mars_demo.training import Recipe, train

NAME = "mars-smollm2-135m"


@dataclass(frozen=True)
class Scale:
    """How much of everything: conversations, of which some have a second turn, and training."""

    held_out: int
    conversations: int
    second_turns: int
    batch: int  # answers written at a time
    max_new_tokens: int
    recipe: Recipe


FULL = Scale(
    held_out=600,
    conversations=160_000,
    second_turns=30_000,
    batch=2048,
    max_new_tokens=256,
    recipe=Recipe(
        "mars",
        block_size=8,
        kl_weight=0.5,
        steps=2500,
        batch_tokens=32_768,
        learning_rate=2e-4,
        save_every=250,
    ),
)
SMALL = Scale(
    held_out=4,
    conversations=12,
    second_turns=4,
    batch=4,
    max_new_tokens=32,
    recipe=replace(FULL.recipe, steps=3, batch_tokens=1024, save_every=2),
)


def make_base(source: str, output: Path) -> None:
    """The base as a plain folder in bfloat16."""
    base = checkpoints.load(source, device="cpu", dtype=torch.bfloat16)
    checkpoints.save(base.model, base.tokenizer, output, block_size=None)


def make_data(output: Path, scale: Scale) -> None:
    """`held-out.jsonl` and `train.jsonl`: made and self-written prompts, and second turns, with the base's
    greedy answers."""
    base = checkpoints.load(str(output / "base"))
    held_out, first, all_turns = (output / f"{name}.jsonl" for name in ("held-out", "first-turns", "train"))
    for path, count, seed, avoid in (
        (held_out, scale.held_out, 1, None),
        (first, scale.conversations, 2, held_out),
    ):
        prompts = _mixed(base, scale.batch, seed)
        _fill(path, base, prompts, count, scale, avoid)
    if not all_turns.exists() or sum(1 for _ in all_turns.open()) < scale.conversations:
        all_turns.write_text(first.read_text("utf-8"), encoding="utf-8")
    begun = [
        json.loads(line) for line in itertools.islice(first.open(encoding="utf-8"), 2 * scale.second_turns)
    ]
    _fill(
        all_turns,
        base,
        distillation.follow_ups(begun),
        scale.conversations + scale.second_turns,
        scale,
        held_out,
    )


def _mixed(base: checkpoints.Checkpoint, batch: int, seed: int) -> Iterator[str]:
    """Made prompts and the model's own in turn."""
    own = distillation.self_prompts(base, batch, seed)
    for made in distillation.made_prompts(seed):
        yield made
        yield next(own)


def _fill(path: Path, base, prompts, count: int, scale: Scale, avoid: Path | None) -> None:
    with tqdm(total=count, desc=path.name, unit="answer", mininterval=5) as bar:
        for held in distillation.write(
            path, base, prompts, count, scale.batch, scale.max_new_tokens, avoid
        ):
            bar.update(held - bar.n)


def train_mars(output: Path, scale: Scale) -> None:
    base = checkpoints.load(str(output / "base"), dtype=torch.float32)
    recipe = replace(scale.recipe, data=str(output / "train.jsonl"))
    bar = tqdm(total=recipe.steps, desc=NAME, unit="step", mininterval=5)
    for metrics in train(base.model, base.tokenizer, recipe, output / NAME, resume=True):
        bar.update(metrics.step - bar.n)
        bar.set_postfix({name: f"{loss:.3f}" for name, loss in metrics.losses.items()}, refresh=False)
    bar.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Make MARS-SmolLM2-135M.")
    parser.add_argument("--base", help="a GGUF file, folder or hub id of SmolLM2-135M-Instruct")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--stage", choices=["base", "data", "train"])
    parser.add_argument("--small", action="store_true", help="a few conversations and steps")
    arguments = parser.parse_args()
    scale, output = SMALL if arguments.small else FULL, arguments.output
    if arguments.stage in (None, "base") and not (output / "base" / "config.json").exists():
        make_base(arguments.base, output / "base")
    if arguments.stage in (None, "data"):
        make_data(output, scale)
    if arguments.stage in (None, "train") and not (output / NAME / "config.json").exists():
        train_mars(output, scale)
    print(f"{output} is ready.", file=sys.stderr)


if __name__ == "__main__":
    main()
