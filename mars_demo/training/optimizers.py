"""Optimizers: AdamW, and AdamW with Muon for the hidden matrices."""

from __future__ import annotations

import math
from collections import defaultdict

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mars_demo.models.device import multiplies_bfloat16

MOMENTUM, STEPS = 0.95, 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of Newton-Schulz, as in torch.optim.Muon
TINY = 1e-7


class MuonAdamW(torch.optim.AdamW):
    """AdamW for some parameter groups, and Muon for those with `muon`.

    On a GPU the matrices of one shape are one stack, so that a step has few and large operations. The
    update is that of `torch.optim.Muon` with `adjust_lr_fn="match_rms_adamw"`. The momentum of a stack is
    in the state of its first matrix.

    On a GPU, values of a gradient that are not finite count as 0. If its norm is not finite, clipping has
    made all others 0, so that such a step changes only momentum and decay. On a CPU it is not taken.
    """

    @torch.no_grad()
    def step(self, closure=None):
        groups = self.param_groups
        for group in groups:
            for parameter in group["params"]:
                if parameter.grad is not None and not parameter.is_cpu:
                    parameter.grad.nan_to_num_(0.0, 0.0, 0.0)
        self.param_groups = [group for group in groups if not group["muon"]]
        try:
            loss = super().step(closure)
        finally:
            self.param_groups = groups
        for group in groups:
            if group["muon"]:
                for matrices in _stacks(group["params"]):
                    self._take(matrices, group["lr"], group["weight_decay"])
        return loss

    def _take(self, matrices: list[nn.Parameter], rate: float, decay: float) -> None:
        gradients, state = [matrix.grad for matrix in matrices], self.state[matrices[0]]
        update = torch.stack(gradients) if gradients[1:] else gradients[0]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(update)
            state["step"] = torch.zeros(())  # AdamW reads one from every state that it loads
        momentum = state["momentum_buffer"].lerp_(update, 1 - MOMENTUM)
        update = orthogonal(update.lerp_(momentum, MOMENTUM))
        scale = -rate * 0.2 * math.sqrt(max(update.shape[-2:]))
        for matrix, change in zip(matrices, update.unbind() if gradients[1:] else [update]):
            matrix.mul_(1 - rate * decay).add_(change, alpha=scale)


def _stacks(parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Return the matrices of each shape; on a CPU each one alone, which stays in its cache."""
    stacks = defaultdict(list)
    for number, matrix in enumerate(parameters):
        if matrix.grad is not None:
            stacks[number if matrix.is_cpu else matrix.shape].append(matrix)
    return list(stacks.values())


def orthogonal(matrices: Tensor) -> Tensor:
    """Return matrices [(k,) rows, columns] with the same singular vectors and singular values near 1.

    Products are in bfloat16 where it is fast, else in float32.
    """
    x = matrices.to(torch.bfloat16 if multiplies_bfloat16(str(matrices.device)) else torch.float32)
    multiply = torch.addmm if x.ndim == 2 else torch.baddbmm
    is_tall = x.shape[-2] > x.shape[-1]
    x = x.mT if is_tall else x
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=TINY)
    first, second, third = COEFFICIENTS
    for _ in range(STEPS):
        gram = x @ x.mT
        x = multiply(x, multiply(gram, gram, gram, beta=second, alpha=third), x, beta=first)
    return x.mT if is_tall else x


def make_optimizer(
    model: PreTrainedModel, rate: float, muon_rate: float | None, decay: float, betas: tuple[float, float]
) -> MuonAdamW:
    """Return AdamW for all trained weights, or AdamW for embeddings and norms and Muon for the matrices.

    Matrices are the weights of linear layers except the head; an adapter's row of the mask is an embedding.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    chosen = set()
    if muon_rate is not None:
        ends = {id(model.get_input_embeddings().weight), id(model.get_output_embeddings().weight)}
        chosen = {id(layer.weight) for layer in model.modules() if isinstance(layer, nn.Linear)} - ends
    matrices = [p for p in trained if id(p) in chosen]
    groups = [{"params": [p for p in trained if id(p) not in chosen], "muon": False}]
    if matrices:
        groups.append({"params": matrices, "lr": muon_rate, "muon": True})
    # Fused: one pass over the weights and their moments, in place.
    return MuonAdamW(groups, lr=rate, betas=betas, weight_decay=decay, fused=True)
