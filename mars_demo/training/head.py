"""The loss of a language model's head, some positions at a time.

All logits of a step at once would be its largest tensor by far: [targets, vocabulary] in float32. Here
the gradient of a part is computed as soon as its logits are there, and these are forgotten; the backward
pass computes none of them again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div, log_softmax

ROWS = 1024  # positions at a time


@dataclass(frozen=True)
class Teacher:
    """Whose distributions k positions are to have.

    head: makes logits of `hidden`.
    hidden: [k, width] states of a model.
    weight: of the divergence from these distributions, in nats.
    """

    head: nn.Module
    hidden: Tensor
    weight: Tensor


@dataclass(frozen=True)
class Targets:
    """What k positions must predict and what each counts in the loss.

    ids: [k] tokens.
    weights: [k] of the nats of each.
    """

    ids: Tensor
    weights: Tensor
    teacher: Teacher | None = None

    def part(self, rows: slice) -> Targets:
        teacher = self.teacher and replace(self.teacher, hidden=self.teacher.hidden[rows])
        return Targets(self.ids[rows], self.weights[rows], teacher)


@dataclass(frozen=True)
class Found:
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
    """What `Found` holds, of positions whose logits are computed at once."""
    logits = head(hidden).float()
    nats = cross_entropy(logits, ids, reduction="none")
    loss, kl = (weights * nats).sum(), nats.new_zeros(())
    if teacher_hidden is not None:
        wanted = log_softmax(teacher_head(teacher_hidden).float(), -1).detach()
        kl = kl_div(log_softmax(logits, -1), wanted, reduction="sum", log_target=True)
        loss = loss + teacher_weight * kl
    return loss, nats.detach(), logits.argmax(-1) == ids, kl.detach()


def in_parts(head: nn.Module, hidden: Tensor, targets: Targets, compute: Callable = of_part) -> Found:
    """The loss of [k, width] hidden states, `ROWS` at a time. compute: `of_part`, or that compiled."""
    parameters = [p for p in head.parameters() if p.requires_grad]
    return Found(*_InParts.apply(head, targets, compute, torch.is_grad_enabled(), hidden, *parameters))


class _InParts(torch.autograd.Function):
    """A loss that computes its gradients with itself."""

    @staticmethod
    def forward(ctx, head, targets, compute, needed, hidden, *parameters):
        gradients = [torch.zeros_like(one) for one in (hidden, *parameters)] if needed else []
        losses, nats, right, kls = [], [], [], []
        for first in range(0, len(hidden), ROWS):
            rows = slice(first, first + ROWS)
            part, aims = hidden[rows].detach(), targets.part(rows)
            with torch.set_grad_enabled(needed):
                part.requires_grad_(needed)
                teacher = aims.teacher and (aims.teacher.head, aims.teacher.hidden, aims.teacher.weight)
                loss, *others = compute(head, part, aims.ids, aims.weights, *teacher or ())
            if needed:
                of_part, *rest = torch.autograd.grad(loss, (part, *parameters))
                gradients[0][rows] = of_part
                for total, one in zip(gradients[1:], rest):
                    total += one
            losses.append(loss.detach())
            for kept, one in zip((nats, right, kls), others):
                kept.append(one)
        ctx.save_for_backward(*gradients)
        found = torch.cat(nats), torch.cat(right), torch.stack(kls).sum()
        ctx.mark_non_differentiable(*found)
        return torch.stack(losses).sum(), *found

    @staticmethod
    def backward(ctx, gradient, *unused):
        return None, None, None, None, *(one.mul_(gradient) for one in ctx.saved_tensors)
