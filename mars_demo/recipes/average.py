"""Weight averaging (model soups, arXiv 2203.05482), which brings a trained model nearer to its base."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.export import card
from mars_demo.models.export.save import save_checkpoint
from mars_demo.models.facts import beside
from mars_demo.models.load import load_checkpoint


def write_average(shares: Sequence[tuple[str, float]], output: Path) -> None:
    """Write the weighted average of checkpoints, with tokenizer, settings and recipe of the first one.

    shares: names of checkpoints, each with its share; only the ratios of shares matter.

    Raises:
        ValueError: if a share is not a positive number, or a checkpoint differs in shape from the first.
    """
    for name, share in shares:
        if not 0 < share < math.inf:
            raise ValueError(f"The share of {name} must be a number larger than 0, not {share:g}.")
    total = sum(share for _, share in shares)
    shares = [(name, share / total) for name, share in shares]
    (name, share), *others = shares
    first = load_checkpoint(name, "cpu", torch.float32)
    average = {key: share * weight for key, weight in first.model.state_dict().items()}
    for name, share in others:
        _add(average, load_checkpoint(name, "cpu", torch.float32), share)
    save_checkpoint(first.model, first.tokenizer, output, first.block_size, first.objective, average)
    averaged = ", ".join(f"{Path(name).name} {share:.2g}" for name, share in shares)
    _record(first, averaged, output)


def _add(average: dict[str, Tensor], other: Checkpoint, share: float) -> None:
    weights = other.model.state_dict()
    if {name: w.shape for name, w in weights.items()} != {name: w.shape for name, w in average.items()}:
        raise ValueError(f"The weights of {other.name} differ in shape from those of the first checkpoint.")
    for name, weight in weights.items():
        average[name] += share * weight


def _record(first: Checkpoint, averaged: str, output: Path) -> None:
    """Write the recipe of the first checkpoint, as far as it has one, with the shares, and a card."""
    source = beside(first.source, "recipe.json")
    recipe = {"base": Path(first.name).name, "objective": first.objective}
    recipe |= json.loads(source.read_text("utf-8")) if source.exists() else {}
    card.write_recipe(output, first, recipe | {"averaged": averaged})
