"""FlexAttention against dense masks: losses and gradients of one small batch."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mars_demo.models.load import load_checkpoint
from mars_demo.recipes import smollm
from mars_demo.recipes.window.settings import config
from mars_demo.training.attention import FLEX, SDPA, attending
from mars_demo.training.trainer import MarsTrainer

POSITIONS = 4096
WAYS = {  # attention, and whether products are in bfloat16
    "exact": (SDPA, False),
    "dense": (SDPA, True),
    "flex": (FLEX, True),
}


def equality(model: Path) -> dict[str, Any]:
    """Return the loss of each way, and the largest relative difference of a gradient from the exact one.

    FlexAttention is right if it differs little more than a dense mask does in bfloat16. It has no backward
    pass on a CPU.
    """
    base = load_checkpoint(str(model), device="cpu", dtype=torch.float32)
    with torch.no_grad():  # away from the reference, so that the KL divergence has a gradient
        for weight in base.model.parameters():
            weight += 0.02 * weight.std() * torch.randn_like(weight)
    # Only FlexAttention itself is compiled, to save time.
    small = config(
        smollm.MARS, model / "equality", model, packed=POSITIONS, compile=False, dataloader_num_workers=0
    )
    trainer = MarsTrainer(base.model, small, processing_class=base.tokenizer)
    batch = next(iter(trainer.get_train_dataloader()))
    ways = {name: way for name, way in WAYS.items() if way[0] == SDPA or trainer.args.device.type == "cuda"}
    results = {name: _gradients(trainer, batch, *way) for name, way in ways.items()}
    _, exact = results["exact"]
    return {
        name: {
            "loss": loss,
            "gradients": max(_difference(one, exact[weight]) for weight, one in gradients.items()),
        }
        for name, (loss, gradients) in results.items()
    }


def _gradients(
    trainer: MarsTrainer, batch, attention: str, narrow: bool
) -> tuple[float, dict[str, Tensor]]:
    model = trainer.model
    device = model.device.type
    model.zero_grad()
    with attending(model, attention), torch.autocast(device, torch.bfloat16, enabled=narrow):
        losses = trainer.objective(model, batch)
        losses["loss"].backward()
    return losses["loss"].item(), {name: p.grad.clone() for name, p in model.named_parameters()}


def _difference(one: Tensor, exact: Tensor) -> float:
    return ((one - exact).norm() / exact.norm().clamp(min=1e-30)).item()
