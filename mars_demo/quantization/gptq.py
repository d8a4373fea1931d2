"""Rounding weights so that the output of a layer changes least, rather than the weights themselves (GPTQ).

The columns of a matrix are rounded one after the other. The change that this causes in the layer's output
on real inputs is compensated, as far as possible, by the columns after it (Frantar et al., arXiv
2210.17323).
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

GROUP = 32  # weights that share a scale and an offset, as in GGUF
DAMPING = 0.01  # of the mean diagonal, for inputs that were rare in calibration


def inputs(checkpoint: Checkpoint, data: str, count: int = 8) -> Iterator[Batch]:
    """`count` batches of about 1500 clean positions each, of data as `corpus.source` takes them."""
    tokenizer = checkpoint.tokenizer
    drawn = corpus.batches(corpus.source(data, seed=1), tokenizer, 1536, checkpoint.context, seed=1)
    for number, sequences in enumerate(itertools.islice(drawn, count)):
        rng = random.Random(number)
        yield mars_batch(sequences, checkpoint.block_size, checkpoint.mask_id, checkpoint.mask_id, rng)


@torch.inference_mode()
def second_moments(model: nn.Module, batches: Iterable[Batch]) -> dict[str, Tensor]:
    """XᵀX of the inputs to each linear layer of the model's body, [in, in] by the name of its weight.

    The batches are those of training, so that masks count as well as tokens.
    """
    found: dict[str, Tensor] = {}

    def watch(name: str):
        def add(module: nn.Module, inputs: tuple[Tensor]) -> None:
            seen = inputs[0].flatten(0, -2).float()
            found[name] = found.get(name, 0) + seen.T @ seen

        return add

    hooks = [
        module.register_forward_pre_hook(watch(f"{name}.weight"))
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name != "lm_head"
    ]
    objective = Objective(model)
    for batch in batches:
        objective(batch)
    for hook in hooks:
        hook.remove()
    return found


@dataclass(frozen=True)
class Rounded:
    """A matrix as `codes · scales + offsets`: codes [rows, columns] from 0 to 2^bits - 1, the others
    float16 [rows, columns / GROUP]."""

    bits: int
    codes: Tensor
    scales: Tensor
    offsets: Tensor

    def dense(self) -> Tensor:
        scales, offsets = (t.float().repeat_interleave(GROUP, dim=1) for t in (self.scales, self.offsets))
        return self.codes * scales + offsets


def rounded(weight: Tensor, bits: int, moments: Tensor) -> Rounded:
    """`weight` [rows, columns] in so many bits, for inputs with these second moments [columns, columns]."""
    weight, levels = weight.float().clone(), 2**bits - 1
    damped = moments.double() + DAMPING * moments.diagonal().mean() * torch.eye(len(moments))
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    upper = torch.linalg.cholesky(inverse, upper=True).float()
    codes = torch.empty_like(weight)
    scales, offsets = [], []
    for start in range(0, weight.shape[1], GROUP):
        end = start + GROUP
        group = weight[:, start:end]
        low, high = group.aminmax(dim=1)
        scales.append(((high - low) / levels).half())
        offsets.append(low.half())
        scale, offset = scales[-1].float().clamp(min=1e-12), offsets[-1].float()
        errors = torch.empty_like(group)
        for column in range(start, end):
            code = ((weight[:, column] - offset) / scale).round().clamp(0, levels)
            codes[:, column] = code
            error = (weight[:, column] - code * scale - offset) / upper[column, column]
            errors[:, column - start] = error
            weight[:, column + 1 : end] -= error[:, None] * upper[column, column + 1 : end]
        weight[:, end:] -= errors @ upper[start:end, end:]
    return Rounded(bits, codes.to(torch.uint8), torch.stack(scales, 1), torch.stack(offsets, 1))
