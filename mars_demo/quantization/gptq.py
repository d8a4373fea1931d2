"""Rounding weights so that the output of a layer changes least, rather than the weights themselves (GPTQ).

The columns of a matrix are rounded one after the other. The change that this causes in the layer's output
on real inputs is compensated, as far as possible, by the columns after it (Frantar et al., arXiv
2210.17323). The scale of a group of weights is the one with which rounding the group changes the output
least: its largest weights may be clipped.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mars_demo.models.checkpoint import Checkpoint
from mars_demo.training import corpus
from mars_demo.training.objective import Batch, Objective, mars_batch

HIGHEST = 31  # code of 5 bits
GROUP = 32  # weights that share a scale and an offset, as in GGUF
DAMPING = 0.01  # of the mean diagonal, for inputs that were rare in calibration
CLIPPED = [step / 20 for step in range(9)]  # shares of a group's range that are tried, at either end


def inputs(checkpoint: Checkpoint, data: str, count: int = 8) -> Iterator[Batch]:
    """Yield `count` batches of about 1500 clean positions each, of data as `corpus.source` takes them."""
    tokenizer = checkpoint.tokenizer
    drawn = corpus.batches(corpus.source(data, seed=1), tokenizer, 1536, checkpoint.context, seed=1)
    for number, sequences in enumerate(itertools.islice(drawn, count)):
        rng = random.Random(number)
        yield mars_batch(sequences, checkpoint.block_size, checkpoint.mask_id, checkpoint.mask_id, rng)


@torch.inference_mode()
def second_moments(model: nn.Module, batches: Iterable[Batch]) -> dict[str, Tensor]:
    """Return XᵀX of the inputs to each linear layer, [in, in] by the name of its weight, which for a tied
    head is the embedding's. The batches are those of training, so that masks count as well as tokens."""
    found: dict[str, Tensor] = {}
    names = {id(weight): name for name, weight in model.named_parameters()}

    def watch(name: str):
        def add(module: nn.Module, inputs: tuple[Tensor]) -> None:
            seen = inputs[0].flatten(0, -2).float()
            found[name] = found.get(name, 0) + seen.T @ seen

        return add

    hooks = [
        module.register_forward_pre_hook(watch(names[id(module.weight)]))
        for module in model.modules()
        if isinstance(module, nn.Linear)
    ]
    objective = Objective(model)
    for batch in batches:
        objective(batch)
    for hook in hooks:
        hook.remove()
    return found


@dataclass(frozen=True)
class Rounded:
    """A matrix as `codes · scales + offsets`: codes [rows, columns] from 0 to `HIGHEST`, the others float16
    [rows, columns / GROUP]. In a `symmetric` one the code in the middle stands for 0."""

    symmetric: bool
    codes: Tensor
    scales: Tensor
    offsets: Tensor

    def dense(self) -> Tensor:
        scales, offsets = (t.float().repeat_interleave(GROUP, dim=1) for t in (self.scales, self.offsets))
        return self.codes * scales + offsets


def rounded(weight: Tensor, moments: Tensor, symmetric: bool = False) -> Rounded:
    """Round `weight` [rows, columns] for inputs with these second moments [columns, columns]."""
    weight = weight.float().clone()
    damped = moments.double() + DAMPING * moments.diagonal().mean() * torch.eye(len(moments))
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    upper = torch.linalg.cholesky(inverse, upper=True).float()
    codes = torch.empty_like(weight)
    scales, offsets = [], []
    for start in range(0, weight.shape[1], GROUP):
        end = start + GROUP
        group = weight[:, start:end]
        # What an error of a column adds to the change of the output that no later column can compensate.
        costs = upper.diagonal()[start:end] ** -2
        scale, offset = _best(group, costs, symmetric)
        scales.append(scale.half())
        offsets.append(offset.half())
        errors = torch.empty_like(group)
        for column in range(start, end):
            code = _codes(weight[:, column], scale, offset)
            codes[:, column] = code
            error = (weight[:, column] - code * scale - offset) / upper[column, column]
            errors[:, column - start] = error
            weight[:, column + 1 : end] -= error[:, None] * upper[column, column + 1 : end]
        weight[:, end:] -= errors @ upper[start:end, end:]
    return Rounded(symmetric, codes.to(torch.uint8), torch.stack(scales, 1), torch.stack(offsets, 1))


def _codes(weight: Tensor, scale: Tensor, offset: Tensor) -> Tensor:
    """Return the nearest codes. A scale that float16 makes 0 has nothing but its offset."""
    codes = ((weight - offset) / torch.where(scale == 0, 1, scale)).round()
    return codes.clamp(0, HIGHEST)


def _best(group: Tensor, costs: Tensor, symmetric: bool) -> tuple[Tensor, Tensor]:
    """Of [rows, GROUP] weights the [rows] scales and offsets, as float16 has them, with the least squared
    errors, each column's counted by its [GROUP] cost."""
    least = torch.full_like(group[:, 0], torch.inf)
    best = torch.zeros_like(least), torch.zeros_like(least)
    for scale, offset in _tried(group, symmetric):
        scale, offset = scale.half().float(), offset.half().float()
        codes = _codes(group, scale[:, None], offset[:, None])
        values = codes * scale[:, None] + offset[:, None]
        change = (values - group).square() @ costs
        better = change < least
        least = torch.where(better, change, least)
        best = torch.where(better, scale, best[0]), torch.where(better, offset, best[1])
    return best


def _tried(group: Tensor, symmetric: bool) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield scales and offsets of [rows, GROUP] weights, first those that clip nothing."""
    low, high = group.aminmax(dim=1)
    if symmetric:
        middle = (HIGHEST + 1) // 2
        largest = torch.where(-low > high, low, high)  # the lowest code stands for it: there is one more
        for clipped in CLIPPED:
            scale = (1 - clipped) * largest / -middle
            yield scale, -middle * scale
        return
    for below, above in itertools.product(CLIPPED, repeat=2):
        offset = (1 - below) * low
        yield ((1 - above) * high - offset) / HIGHEST, offset
