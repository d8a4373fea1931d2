"""Optimizers and learning-rate schedules: AdamW, AdamW with Muon, or LoRA adapters."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch.optim.lr_scheduler import LambdaLR
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from mars_demo.models.device import multiplies_bfloat16
from mars_demo.training.mask_vector import MaskVector
from mars_demo.training.recipe import Recipe

if TYPE_CHECKING:
    from peft import PeftModel

# After its head start, the mask vector learns at MASK_FACTOR times the rate of the weights, plus MASK_REST
# of its own rate, which decays linearly.
MASK_FACTOR = 10
MASK_REST = 1 / 20


def add_adapters(model: PreTrainedModel, rank: int, mask_id: int | None) -> PeftModel:
    """Add LoRA in place to every linear layer, and train the mask token's embedding in full.

    Saving merges the adapters, so a checkpoint has as many parameters as its base.
    """
    from peft import LoraConfig, get_peft_model  # slow to import

    embedding = next(
        name for name, module in model.named_modules() if module is model.get_input_embeddings()
    )
    trained = None if mask_id is None else {embedding.rpartition(".")[2]: [mask_id]}
    config = LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", trainable_token_indices=trained
    )
    return get_peft_model(model, config)


class _InFloat32(TorchFunctionMode):
    """A mode in which `Tensor.bfloat16` keeps the dtype."""

    def __torch_function__(self, function, types, arguments=(), options=None):
        if function is torch.Tensor.bfloat16:
            return arguments[0].clone()
        return function(*arguments, **(options or {}))


class ExactMuon(torch.optim.Muon):
    """Muon that orthogonalizes in float32 instead of bfloat16, for CPUs that are slow at bfloat16."""

    def step(self, closure=None):
        with _InFloat32():
            return super().step(closure)


def make_optimizers(
    model: PreTrainedModel, recipe: Recipe, mask_vector: MaskVector | None = None
) -> list[torch.optim.Optimizer]:
    """Return AdamW for all weights, or AdamW for embeddings and norms and Muon for the hidden matrices.

    The mask vector, if any, is the last parameter group of AdamW.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = []
    if recipe.muon_learning_rate is not None:
        embedding = model.get_input_embeddings().weight
        output = model.get_output_embeddings().weight
        matrices = [p for p in trained if p.ndim == 2 and p is not embedding and p is not output]
    chosen = {id(p) for p in matrices}
    rest = [p for p in trained if id(p) not in chosen]
    decayed = [p for p in rest if p.ndim > 1 or recipe.decay_vectors]
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}]
    if len(decayed) < len(rest):
        free = [p for p in rest if p.ndim <= 1]
        groups.append({"params": free, "weight_decay": 0.0})
    if mask_vector is not None:
        rate = recipe.mask_learning_rate
        groups.append({"params": [mask_vector.vector], "weight_decay": 0.0, "lr": rate})
    # Fused: one pass over the weights and their moments, in place.
    adamw = torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.95), fused=True)
    if not matrices:
        return [adamw]
    muon = (torch.optim.Muon if multiplies_bfloat16(matrices[0].device.type) else ExactMuon)(
        matrices,
        lr=recipe.muon_learning_rate,
        weight_decay=recipe.weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
    return [adamw, muon]


def make_schedulers(
    optimizers: list[torch.optim.Optimizer], recipe: Recipe, mask_vector: MaskVector | None = None
) -> list[LambdaLR]:
    """Return the learning-rate schedules of the optimizers."""
    schedulers = []
    for optimizer in optimizers:
        rates = [partial(body_rate, recipe)] * len(optimizer.param_groups)
        if mask_vector is not None and optimizer is optimizers[0]:
            rates[-1] = partial(mask_rate, recipe)
        schedulers.append(LambdaLR(optimizer, rates))
    return schedulers


def body_rate(recipe: Recipe, step: int) -> float:
    """Return the learning rate of the weights at a step (from 0), relative to the recipe's.

    The schedule is 0 during the mask's head start, then a linear warm-up and a cosine to the final rate.
    """
    begin = round(recipe.mask_head_start * recipe.steps)
    warmup = round(recipe.warmup * recipe.steps)
    if step < begin:
        return 0.0
    if step < begin + warmup:
        return (step - begin) / warmup
    share = (step - begin - warmup) / max(1, recipe.steps - begin - warmup)
    final = recipe.final_learning_rate / recipe.learning_rate
    return final + (1 - final) * max(0.0, 0.5 * (1 + math.cos(math.pi * share)))


def mask_rate(recipe: Recipe, step: int) -> float:
    """Return the learning rate of the mask vector at a step, relative to the recipe's `mask_learning_rate`.

    The rate is constant during the head start and then follows that of the weights.
    """
    if step < round(recipe.mask_head_start * recipe.steps):
        return 1.0
    follows = MASK_FACTOR * recipe.learning_rate / recipe.mask_learning_rate * body_rate(recipe, step)
    return follows + MASK_REST * (1 - step / recipe.steps)
