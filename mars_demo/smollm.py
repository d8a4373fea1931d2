"""MARS-SmolLM2-135M from its base: its own answers as data, MARS training, packing for the app.

    python -m mars_demo.smollm --base SmolLM2-135M-Instruct.Q4_1.gguf --output DIR

needs an NVIDIA GPU for the full recipe; `--scale cpu` is a proof of it that two cores finish in under two
hours. A cut run goes on where it was when called again; `--stage` runs one stage alone. Packing, the last
stage, leaves the folder for `assets/` in DIR/bundle.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from tqdm import tqdm

from mars_demo import card, checkpoints, checks, distillation
from mars_demo.training import Recipe, train

NAME = "mars-smollm2-135m"
PACKED_AS = "Q5_1, embedding Q5_0"  # of `packing.RECIPES`, chosen by `benchmarks.packing`
BASE = "HuggingFaceTB/SmolLM2-135M-Instruct"
ATTRIBUTION = (
    f"The base, [{BASE}](https://huggingface.co/{BASE}), is by Hugging Face and under the Apache License "
    "2.0, a copy of which lies beside the weights; so is this model. Changed from the base: its weights, "
    "trained on as described below and stored in fewer bits, its mask token, and its configuration files."
)


@dataclass(frozen=True)
class Scale:
    """How much of everything: conversations, of which some have a second turn, and training."""

    held_out: int
    conversations: int
    second_turns: int
    batch: int  # answers written at a time
    max_new_tokens: int
    recipe: Recipe


MARS = Recipe("mars", block_size=8, learning_rate=2e-4)
SCALES = {
    "full": Scale(
        held_out=600,
        conversations=100_000,
        second_turns=20_000,
        batch=2048,
        max_new_tokens=384,
        recipe=replace(MARS, steps=2500, batch_tokens=32_768, save_every=250),
    ),
    "cpu": Scale(
        held_out=100,
        conversations=600,
        second_turns=60,
        batch=96,
        max_new_tokens=192,
        recipe=replace(MARS, steps=300, batch_tokens=768, learning_rate=1e-4, save_every=50),
    ),
    "test": Scale(
        held_out=4,
        conversations=12,
        second_turns=4,
        batch=4,
        max_new_tokens=32,
        recipe=replace(MARS, steps=3, batch_tokens=1024, save_every=2),
    ),
}


def make_base(source: str, output: Path) -> None:
    """The base as a plain folder in bfloat16."""
    base = checkpoints.load(source, device="cpu", dtype=torch.bfloat16)
    checkpoints.save(base.model, base.tokenizer, output, block_size=None)


def make_data(output: Path, scale: Scale) -> None:
    """`held-out.jsonl` and `train.jsonl`: made and self-written prompts, and second turns, with the base's
    greedy answers."""
    base = checkpoints.load(str(output / "base"), dtype=torch.bfloat16)
    held_out, first, all_turns = (output / f"{name}.jsonl" for name in ("held-out", "first-turns", "train"))
    for path, count, seed, avoid in (
        (held_out, scale.held_out, 1, None),
        (first, scale.conversations, 2, held_out),
    ):
        # A file that is gone on with gets new prompts.
        prompts = _mixed(base, min(scale.batch, count), 1_000_003 * seed + _lines(path))
        _fill(path, base, prompts, count, scale, avoid)
    if _lines(all_turns) < scale.conversations:
        all_turns.write_text(first.read_text("utf-8"), encoding="utf-8")
    begun = [
        json.loads(line) for line in itertools.islice(first.open(encoding="utf-8"), 4 * scale.second_turns)
    ]
    _fill(
        all_turns,
        base,
        distillation.follow_ups(begun),
        scale.conversations + scale.second_turns,
        scale,
        held_out,
    )


def _lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines()) if path.exists() else 0


def _mixed(base: checkpoints.Checkpoint, batch: int, seed: int) -> Iterator[str]:
    """Made prompts and the model's own in turn, none of which asks for what will be checked."""
    checked = {instruction.prompt for instruction in checks.instructions()}
    own = distillation.self_prompts(base, batch, seed)
    for made in distillation.made_prompts(seed):
        yield from (prompt for prompt in (made, next(own)) if prompt not in checked)


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
    origin = {"base": BASE, "license": "apache-2.0", "attribution": ATTRIBUTION}
    record = origin | asdict(recipe) | {"data": "the base's own answers", "tokens": metrics.tokens}
    (output / NAME / "recipe.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def pack(output: Path) -> None:
    """The folder for `assets/`: packed weights, licence, model card and the held-out prompts."""
    from mars_demo import calibration, packing  # need gguf, which a machine that only trains can lack

    bundle = output / "bundle" / NAME
    trained = checkpoints.load(str(output / NAME), device="cpu", dtype=torch.float32)
    seen = calibration.inputs(trained, str(output / "train.jsonl"))
    moments = calibration.second_moments(trained.model, seen)
    packing.pack(trained.model, output / NAME, bundle, packing.RECIPES[PACKED_AS], moments)
    shutil.copy(Path(__file__).parent / "export" / "LICENSE-APACHE-2.0.txt", bundle / "LICENSE")
    shutil.copy(output / "held-out.jsonl", bundle)
    card.write(bundle)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make MARS-SmolLM2-135M.")
    parser.add_argument("--base", help="a GGUF file, folder or hub id of SmolLM2-135M-Instruct")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--stage", choices=["base", "data", "train", "pack"])
    parser.add_argument("--scale", choices=SCALES, default="full")
    arguments = parser.parse_args()
    scale, output = SCALES[arguments.scale], arguments.output
    if arguments.stage in (None, "base") and not (output / "base" / "config.json").exists():
        make_base(arguments.base, output / "base")
    if arguments.stage in (None, "data"):
        make_data(output, scale)
    if arguments.stage in (None, "train") and not (output / NAME / "config.json").exists():
        train_mars(output, scale)
    if arguments.stage in (None, "pack"):
        pack(output)
    print(f"{output} is ready.", file=sys.stderr)


if __name__ == "__main__":
    main()
