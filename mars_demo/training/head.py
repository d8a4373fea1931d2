"""The loss of a language model's head, some positions at a time.

All logits of a step at once would be its largest tensor by far: [targets, vocabulary] in float32. Here
the gradient of a part is computed as soon as its logits are there, and these are forgotten; the backward
pass computes none of them again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div, log_softmax

ROWS = 1024  # positions at a time


@dataclass(frozen=True)
class Teacher:
    """Distributions that k positions should match: those that `head` gives for [k, width] `hidden` states.
    `weight` is that of the KL divergence from them, in nats."""

    head: nn.Module
    hidden: Tensor
    weight: Tensor


class Found(NamedTuple):
    """The `loss` of k positions, which has a gradient, and what it is made of, which has none: [k] the
    `nats` of each target and whether it was the best guess, and the summed divergence `kl`."""

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
    """Compute what `Found` holds, of positions whose logits are computed at once."""
    logits = head(hidden).float()
    nats = cross_entropy(logits, ids, reduction="none")
    loss, kl = (weights * nats).sum(), nats.new_zeros(())
    if teacher_hidden is not None:
        wanted = log_softmax(teacher_head(teacher_hidden).float(), -1).detach()
        kl = kl_div(log_softmax(logits, -1), wanted, reduction="sum", log_target=True)
        loss = loss + teacher_weight * kl
    return loss, nats.detach(), logits.argmax(-1) == ids, kl.detach()


def in_parts(
    head: nn.Module,
    hidden: Tensor,
    ids: Tensor,
    weights: Tensor,
    teacher: Teacher | None = None,
    compute: Callable = of_part,
) -> Found:
    """Compute the loss of [k, width] hidden states, `ROWS` at a time.

    ids, weights: [k] target tokens, and what the nats of each count in the loss.
    compute: `of_part`, or that compiled.
    """
    parameters = [p for p in head.parameters() if p.requires_grad]
    needed = torch.is_grad_enabled()
    return Found(*_InParts.apply(head, ids, weights, teacher, compute, needed, hidden, *parameters))


class _InParts(torch.autograd.Function):
    """A loss that computes its gradients with itself."""

    @staticmethod
    def forward(ctx, head, ids, weights, teacher, compute, needed, hidden, *parameters):
        gradients = [torch.zeros_like(one) for one in (hidden, *parameters)] if needed else []
        losses, nats, right, kls = [], [], [], []
        for first in range(0, len(hidden), ROWS):
            rows = slice(first, first + ROWS)
            part = hidden[rows].detach().requires_grad_(needed)
            taught = (teacher.head, teacher.hidden[rows], teacher.weight) if teacher else ()
            with torch.set_grad_enabled(needed):
                loss, *others = compute(head, part, ids[rows], weights[rows], *taught)
            if needed:
                of_part, *rest = torch.autograd.grad(loss, (part, *parameters))
                gradients[0][rows] = of_part
                for total, one in zip(gradients[1:], rest):
                    total += one
            for kept, one in zip((losses, nats, right, kls), (loss.detach(), *others)):
                kept.append(one)
        ctx.save_for_backward(*gradients)
        found = torch.cat(nats), torch.cat(right), torch.stack(kls).sum()
        ctx.mark_non_differentiable(*found)
        return torch.stack(losses).sum(), *found

    @staticmethod
    def backward(ctx, gradient, *unused):
        return *[None] * 6, *(one.mul_(gradient) for one in ctx.saved_tensors)
