"""The loss of a language model's head, computed in chunks of positions.

All logits of a step, [targets, vocabulary] in float32, would be its largest tensor by far. Here the
gradient of a chunk is computed together with its loss, and its logits are freed; the backward pass
recomputes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div, log_softmax

ROWS, MOST_ROWS = 1024, 8192  # positions of a chunk on a CPU, and at most on a GPU
LOGITS = 2**29  # of a chunk, at most


@dataclass(frozen=True)
class Teacher:
    """The distributions that k positions should match: the output of `head` on [k, width] `hidden` states.

    `weight` is the weight of the KL divergence from them, in nats.
    """

    head: nn.Module
    hidden: Tensor
    weight: Tensor


class Losses(NamedTuple):
    """The `loss` of k positions and, without gradients, its parts.

    `nats` is the [k] cross-entropy of each target, `right` whether its prediction was correct, and `kl` the
    summed KL divergence.
    """

    loss: Tensor
    nats: Tensor
    right: Tensor
    kl: Tensor


def of_part(
    head: nn.Module,
    hidden: Tensor,
    ids: Tensor,
    weights: Tensor,
    teacher_head: nn.Module | None = None,
    teacher_hidden: Tensor | None = None,
    teacher_weight: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the fields of a `Losses` for one chunk of positions."""
    logits = head(hidden).float()
    nats = cross_entropy(logits, ids, reduction="none")
    loss, kl = (weights * nats).sum(), nats.new_zeros(())
    if teacher_hidden is not None:
        expected = log_softmax(teacher_head(teacher_hidden).float(), -1).detach()
        kl = kl_div(log_softmax(logits, -1), expected, reduction="sum", log_target=True)
        loss = loss + teacher_weight * kl
    return loss, nats.detach(), logits.argmax(-1) == ids, kl.detach()


def in_parts(
    head: nn.Module,
    hidden: Tensor,
    ids: Tensor,
    weights: Tensor,
    teacher: Teacher | None = None,
    compute: Callable = of_part,
) -> Losses:
    """Return the losses of [k, width] hidden states, computed some positions at a time.

    ids, weights: [k] target tokens, and the weight of each target's cross-entropy.
    compute: `of_part` or a compiled version of it.
    """
    parameters = [p for p in head.parameters() if p.requires_grad]
    needed = torch.is_grad_enabled()
    settings = (head, ids, weights, teacher, compute, needed, rows_of(hidden.device, head))
    return Losses(*_InParts.apply(*settings, hidden, *parameters))


def rows_of(device: torch.device, head: nn.Module) -> int:
    """Return the positions of a chunk; many on a GPU, as each one adds a gradient of the whole head."""
    if device.type == "cpu":
        return ROWS
    return max(ROWS, min(MOST_ROWS, LOGITS // head.weight.shape[0]))


class _InParts(torch.autograd.Function):
    """A loss whose forward pass also computes the gradients."""

    @staticmethod
    def forward(ctx, head, ids, weights, teacher, compute, needed, size, hidden, *parameters):
        gradients = [torch.zeros_like(tensor) for tensor in (hidden, *parameters)] if needed else []
        parts = []
        for first in range(0, len(hidden), size):
            rows = slice(first, first + size)
            part = hidden[rows].detach().requires_grad_(needed)
            taught = (teacher.head, teacher.hidden[rows], teacher.weight) if teacher else ()
            with torch.set_grad_enabled(needed):
                loss, *others = compute(head, part, ids[rows], weights[rows], *taught)
            if needed:
                of_part, *rest = torch.autograd.grad(loss, (part, *parameters))
                gradients[0][rows] = of_part
                for total, gradient in zip(gradients[1:], rest):
                    total += gradient
            parts.append((loss.detach(), *others))
        ctx.save_for_backward(*gradients)
        losses, nats, right, kls = zip(*parts)
        others = torch.cat(nats), torch.cat(right), torch.stack(kls).sum()
        ctx.mark_non_differentiable(*others)
        return torch.stack(losses).sum(), *others

    @staticmethod
    def backward(ctx, gradient, *unused):
        return *[None] * 7, *(saved.mul_(gradient) for saved in ctx.saved_tensors)
