"""The recipe of MARS-SmolLM2-135M: AR SFT, then MARS, on skills and the base's own answers.

    python -m mars_demo recipe smollm --base SmolLM2-135M-Instruct.Q4_1.gguf --output DIR

The full recipe needs an NVIDIA GPU; `--scale cpu` is a smaller one for two cores with bfloat16 units. If
interrupted, run the same command again; `--stage` runs one stage alone. The last stage writes the folder
for `assets/` to DIR/bundle.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mars_demo.core.names import CHAT
from mars_demo.evaluation import results
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.export import LICENSE, card
from mars_demo.models.export.save import save_checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.recipes import distillation
from mars_demo.tasks import instructions
from mars_demo.training.bar import train
from mars_demo.training.config import MarsConfig
from mars_demo.training.metrics import duration, logged
from mars_demo.training.trainer import MarsTrainer

BASE = "HuggingFaceTB/SmolLM2-135M-Instruct"
ATTRIBUTION = (
    f"The base, [{BASE}](https://huggingface.co/{BASE}), is by Hugging Face and under the Apache License "
    "2.0, and so is this model; a copy of the licence is next to the weights. Changed from the base: its "
    "weights, trained further as described below and rounded to 8 bits, its mask token, and its "
    "configuration files."
)
# Three answers to skills have about as many tokens as one of the base's own answers. An hour with six, and
# own answers cut short, taught more skills, but the model then followed fewer instructions.
DATA = "skills+skills+skills+{chat}"
# The clean stream learns skills by cross-entropy and matches the base's distributions on its answers.
AR = {
    "objective": "ar", "reference_weight": 12.0, "learning_rate": 2e-4, "muon_learning_rate": 6e-4,
    "lr_scheduler_kwargs": {"min_lr_rate": 0.02}, "max_length": 400, "compile": True,
}  # fmt: skip
MARS = AR | {"objective": "mars", "slot_decay": 0.9}
AR_SHARE = 0.1  # of the minutes


@dataclass(frozen=True)
class Scale:
    """The size of a recipe: conversations, second turns, and two trainings, the second from the first."""

    held_out: int
    conversations: int
    second_turns: int
    batch: int  # answers decoded at a time
    max_new_tokens: int
    steps: tuple[int, int]  # of AR SFT and of MARS
    settings: dict[str, Any]  # of both trainings


SCALES = {
    "full": Scale(
        held_out=600,
        conversations=100_000,
        second_turns=20_000,
        batch=2048,
        max_new_tokens=384,
        steps=(300, 5000),
        settings={"packed": 65_536, "dataloader_num_workers": 8, "save_steps": 250},
    ),
    # Several small batches per step, because conversations of one length are of few kinds.
    "cpu": Scale(
        held_out=192,
        conversations=20_000,
        second_turns=5_000,
        batch=96,
        max_new_tokens=192,
        steps=(20, 750),
        settings={"batch_tokens": 1024, "gradient_accumulation_steps": 4, "save_steps": 20},
    ),
}


def make_data(output: Path, scale: Scale) -> None:
    """Write `held-out.jsonl` and `train.jsonl`: prompts and second turns with the base's greedy answers."""
    base = load_checkpoint(str(output / "base"), dtype=torch.bfloat16)
    held_out, training = output / "held-out.jsonl", output / "train.jsonl"
    size = (scale.batch, scale.max_new_tokens)
    for path, count, seed, avoid in (
        (held_out, scale.held_out, 1, None),
        (training, scale.conversations, 2, held_out),
    ):
        # A resumed file gets new prompts.
        prompts = _mixed(base, min(scale.batch, count), 1_000_003 * seed + _lines(path))
        distillation.write_answers(path, base, prompts, count, *size, avoid)
    first = training.read_text("utf-8").splitlines()[: min(4 * scale.second_turns, scale.conversations)]
    second = distillation.follow_ups(map(json.loads, first))
    count = scale.conversations + scale.second_turns
    distillation.write_answers(training, base, second, count, *size, held_out)


def _lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines()) if path.exists() else 0


def _mixed(base: Checkpoint, batch: int, seed: int) -> Iterator[str]:
    """Yield template prompts and the model's own in turn, without those of verifiable instructions."""
    excluded = {instruction.prompt for instruction in instructions.instructions()}
    own = distillation.self_prompts(base, batch, seed)
    for template in distillation.made_prompts(seed):
        yield from (prompt for prompt in (template, next(own)) if prompt not in excluded)


def train_both(output: Path, scale: Scale, minutes: float | None) -> None:
    """Train AR SFT from the base, then MARS from it, by steps or by the clock."""
    source, summaries = output / "base", []
    both = {"data": DATA.format(chat=output / "train.jsonl"), "reference": str(source)} | scale.settings
    trainings = (("ar", AR, AR_SHARE), (CHAT, MARS, 1 - AR_SHARE))
    for (name, recipe, share), steps in zip(trainings, scale.steps):
        folder, time = output / name, minutes and share * minutes
        config = MarsConfig(str(folder), minutes=time, **recipe | both | {"max_steps": steps})
        start = load_checkpoint(str(source), dtype=torch.float32)
        train(MarsTrainer(start.model, config, processing_class=start.tokenizer), resume=True)
        summaries.append(summary(config))
        source = folder
    write_record(source, config, summaries)


def write_record(folder: Path, config: MarsConfig, summaries: list[dict]) -> None:
    """Write `recipe.json`: the settings of the last training, and the costs of all."""
    origin = {"base": BASE, "base_model": BASE, "language": "en", "license": "apache-2.0"}
    origin |= {"attribution": ATTRIBUTION}
    names = {"data": "skills and the base's own answers", "reference": BASE}
    record = origin | config.record() | names | {"trainings": summaries}
    (folder / "recipe.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def summary(config: MarsConfig) -> dict:
    """Return the settings and costs of a finished training."""
    steps = logged(Path(config.output_dir))
    return {
        "objective": config.objective,
        "steps": steps[-1].step,
        "tokens": steps[-1].tokens,
        "minutes": round(duration(steps) / 60),
        "muon_learning_rate": config.muon_learning_rate,
        "machine": results.machine(),
    }


def bundle(output: Path) -> None:
    """Write the folder for `assets/`: 8-bit weights, licence, model card and held-out prompts."""
    from mars_demo.models.export import q8_0  # needs gguf, which training does not

    folder = output / "bundle" / CHAT
    q8_0.write_q8_0(load_checkpoint(str(output / CHAT), device="cpu", dtype=torch.float32), folder)
    shutil.copy(output / "held-out.jsonl", folder)
    add_descriptions(folder)


def add_descriptions(folder: Path) -> None:
    """Add licence and model card to a bundle."""
    shutil.copy(LICENSE, folder / "LICENSE")
    card.write_model_card(folder)


STAGES = ("base", "data", "train", "bundle")


def make(
    base: str | None,
    output: Path,
    stage: str | None = None,
    scale: str = "full",
    minutes: float | None = None,
) -> None:
    """Run all stages, or one alone; the existing output of a stage is kept.

    base: a GGUF file, folder or hub id of SmolLM2-135M-Instruct, for the first stage.
    minutes: the time of both trainings together, instead of their steps.

    Raises:
        ValueError: if the first stage has no base.
    """
    chosen = SCALES[scale]
    if stage in (None, "base") and not (output / "base" / "config.json").exists():
        if base is None:
            raise ValueError("The stage `base` needs --base, a GGUF file, folder or hub id.")
        plain = load_checkpoint(base, device="cpu", dtype=torch.bfloat16)
        save_checkpoint(plain.model, plain.tokenizer, output / "base", block_size=None)
    if stage in (None, "data"):
        make_data(output, chosen)
    if stage in (None, "train") and not (output / CHAT / "config.json").exists():
        train_both(output, chosen, minutes)
    if stage in (None, "bundle"):
        bundle(output)
