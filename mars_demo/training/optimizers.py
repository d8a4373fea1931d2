"""Which parameters are trained, by which optimizer and at which learning rates: AdamW, AdamW with Muon, or
adapters."""

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

MASK_FACTOR = 10  # times the rate of the weights, and
MASK_REST = 1 / 20  # of its own rate, fading out, is what the mask vector learns at after its head start


def add_adapters(model: PreTrainedModel, rank: int, mask_id: int | None) -> PeftModel:
    """Add LoRA in place to every linear layer; the mask token's embedding is trained in full.

    Merged into the weights when the run is saved: a checkpoint has no more parameters than its base.
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
    """Tensors that are asked for themselves in bfloat16 stay as they are."""

    def __torch_function__(self, function, types, arguments=(), options=None):
        if function is torch.Tensor.bfloat16:
            return arguments[0].clone()
        return function(*arguments, **(options or {}))


class ExactMuon(torch.optim.Muon):
    """torch's Muon, which orthogonalizes in bfloat16, for processors that are slow at that."""

    def step(self, closure=None):
        with _InFloat32():
            return super().step(closure)


def make_optimizers(
    model: PreTrainedModel, recipe: Recipe, mask_vector: MaskVector | None = None
) -> list[torch.optim.Optimizer]:
    """AdamW for everything, or Muon for the hidden matrices and AdamW for embeddings and norms. The mask
    vector, if there is one, is the last group of AdamW."""
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
    """Return the learning rates of each optimizer's groups over the run."""
    schedulers = []
    for optimizer in optimizers:
        rates = [partial(body_rate, recipe)] * len(optimizer.param_groups)
        if mask_vector is not None and optimizer is optimizers[0]:
            rates[-1] = partial(mask_rate, recipe)
        schedulers.append(LambdaLR(optimizer, rates))
    return schedulers


def body_rate(recipe: Recipe, step: int) -> float:
    """Return the learning rate of the weights at a step, from 0, relative to the recipe's.

    0 during the mask's head start; then a linear warm-up and a cosine down to the final rate.
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

    All of it during the head start; then one that follows the weights.
    """
    if step < round(recipe.mask_head_start * recipe.steps):
        return 1.0
    follows = MASK_FACTOR * recipe.learning_rate / recipe.mask_learning_rate * body_rate(recipe, step)
    return follows + MASK_REST * (1 - step / recipe.steps)
