"""The mean of several checkpoints' weights, which keeps a trained model near what it was before."""

import json
from pathlib import Path

import torch

from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.export import card
from mars_demo.models.export.save import save_checkpoint
from mars_demo.models.facts import beside
from mars_demo.models.load import load_checkpoint


def write(shares: dict[str, float], output: Path) -> None:
    """Write the weighted mean of checkpoints, with tokenizer, settings and recipe of the first one.

    shares: by the checkpoint's name; only their ratios matter.

    Raises:
        ValueError: if a share is not positive, or a checkpoint differs in shape from the first one.
    """
    if min(shares.values()) <= 0:
        raise ValueError("Each share of a mean must be larger than 0.")
    total = sum(shares.values())
    (name, share), *others = ((name, share / total) for name, share in shares.items())
    first = load_checkpoint(name, "cpu", torch.float32)
    mean = {key: share * weight for key, weight in first.model.state_dict().items()}
    for name, share in others:
        _add(mean, load_checkpoint(name, "cpu", torch.float32), share)
    save_checkpoint(first.model, first.tokenizer, output, first.block_size, first.objective, mean)
    mixed = ", ".join(f"{Path(name).name} {share / total:.2g}" for name, share in shares.items())
    _record(first, mixed, output)


def _add(mean: dict[str, torch.Tensor], other: Checkpoint, share: float) -> None:
    weights = other.model.state_dict()
    if {name: weight.shape for name, weight in weights.items()} != {n: w.shape for n, w in mean.items()}:
        raise ValueError(f"{other.name} has other weights than the first checkpoint, so they have no mean.")
    for name, weight in weights.items():
        mean[name] += share * weight


def _record(first: Checkpoint, mixed: str, output: Path) -> None:
    """Write the recipe of the first checkpoint, if it has one, with the shares of the mean, and a card."""
    if (source := beside(first.source, "recipe.json")).exists():
        record = json.loads(source.read_text("utf-8")) | {"mixed": mixed}
        (output / "recipe.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        card.write(output)
