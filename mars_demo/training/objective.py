"""The training objective: the losses of a batch's two streams (section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from mars_demo.models.runtime.decoder import run_layout
from mars_demo.training import head
from mars_demo.training.attention import FLEX
from mars_demo.training.batch import Positions, TrainingBatch, to_device
from mars_demo.training.blocks import block_mask
from mars_demo.training.two_streams import IGNORE

MAX_SLOTS = 33  # a window of the largest block size, 32


@dataclass(frozen=True)
class Reference:
    """A frozen reference model, and the weight of the clean stream's KL divergence from it."""

    model: PreTrainedModel
    weight: float


class Objective:
    """The loss of a causal language model on a batch.

    The loss is noisy cross-entropy + λ · clean cross-entropy + μ · KL(reference ‖ clean), where λ is
    `sft_weight` and μ the weight of the `reference`, which keeps the clean stream close to another model.
    Each term is a mean over the targets of its stream; a stream without targets has no term.
    """

    def __init__(self, sft_weight: float = 1.0, reference: Reference | None = None):
        self.sft_weight, self.reference = sft_weight, reference
        self._of_part = head.of_part

    def compile(self, model: nn.Module, dynamic: bool) -> None:
        """Compile the head's loss and each layer of the models, lazily at their first use.

        dynamic: whether batches differ in shape; the number of targets differs in any case.
        """
        self._of_part = torch.compile(head.of_part, dynamic=True)
        for network in (model, self.reference and self.reference.model):
            for layer in layers(network) if network else ():
                layer.compile(dynamic=dynamic)

    def __call__(
        self, model: nn.Module, batch: TrainingBatch, totals: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the losses in nats per token.

        `loss` is to be minimized; `clean`, `noisy` and `reference`, as far as they are computed, have
        no gradient. `slots` is [MAX_SLOTS, 3]: the targets, summed nats and correct predictions per slot.

        batch: on the host, where all indices are computed, so that it does not wait for a GPU.
        totals: [2] divisors of the terms; `batch.totals` if None, or the sum over the batches of a step.
        """
        # 1. One forward over both streams; hidden states only where a loss needs logits.
        is_target = batch.targets != IGNORE
        hidden = _hidden(model, batch.positions)[to_device(_places(is_target), model.device)]
        send = partial(to_device, device=hidden.device)
        of_targets = (batch.targets, batch.weights, batch.slots, batch.is_clean, batch.sft, batch.taught)
        ids, weights, slots, is_clean, sft, taught = (values[is_target] for values in of_targets)
        # 2. Everything below is per target, [targets], in the order of `hidden`.
        zeros = partial(weights.new_zeros, device=hidden.device)
        losses = {"loss": zeros(()), "slots": zeros((MAX_SLOTS, 3))}
        clean_total, noisy_total = send(batch.totals if totals is None else totals)
        if self.reference:
            losses["reference"] = zeros(())
        # 3. The head's loss term by term: a term without targets is left out, and `taught` targets are the
        #    clean ones with a distribution of the reference.
        for name, chosen, factors, total in (
            ("clean", is_clean & ~taught, self.sft_weight * sft, clean_total),
            ("clean", taught, self.sft_weight * sft, clean_total),
            ("noisy", ~is_clean, torch.ones_like(weights), noisy_total),
        ):
            if not chosen.any():
                continue
            teacher = self._teacher(batch, total) if chosen is taught else None
            # Weights are divided before the sum, so that parts of a step add up to the mean of the whole.
            shares = send(weights[chosen]) / total
            part = head.in_parts(
                model.get_output_embeddings(),
                hidden[send(_places(chosen))],
                send(ids[chosen]),
                send(factors[chosen]) * shares,
                teacher,
                self._of_part,
            )
            losses["loss"] = losses["loss"] + part.loss
            losses[name] = losses.get(name, 0) + (shares * part.nats).sum()
            if teacher:
                losses["reference"] = part.kl / total
            losses["slots"] += _per_slot(send(slots[chosen]), part.nats, part.right)
        return losses

    def _teacher(self, batch: TrainingBatch, total: Tensor) -> head.Teacher:
        model = self.reference.model
        with torch.no_grad():
            hidden = _hidden(model, batch.reference)[to_device(batch.expected, model.device)]
        return head.Teacher(model.get_output_embeddings(), hidden, self.reference.weight / total)


def layers(model: nn.Module) -> list[nn.Module]:
    """Return the layers of a model; transformers' layers have a common base."""
    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


def _hidden(model: nn.Module, positions: Positions) -> Tensor:
    """Return the [rows · n, width] final hidden states."""
    if model.config._attn_implementation == FLEX:
        layout, spans = positions.in_one_row()
        mask = block_mask(to_device(spans, model.device))
        return run_layout(model, layout, mask=mask).last_hidden_state[0]
    return run_layout(model, positions.to(model.device).layout()).last_hidden_state.flatten(0, 1)


def _places(chosen: Tensor) -> Tensor:
    """Return the indices of the chosen positions, all rows one after another."""
    return chosen.flatten().nonzero()[:, 0]


def _per_slot(slots: Tensor, nats: Tensor, right: Tensor) -> Tensor:
    """Return [MAX_SLOTS, 3] numbers of targets, summed nats and correct predictions."""
    table = nats.new_zeros(MAX_SLOTS, 3)
    table.index_add_(0, slots - 1, torch.stack([torch.ones_like(nats), nats, right.to(nats.dtype)], dim=1))
    return table
