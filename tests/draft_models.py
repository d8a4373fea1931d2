"""Variants of checkpoints for tests: draft models, and models of another mode."""

import copy
from dataclasses import replace

from mars_demo.models.checkpoint import Checkpoint, wrap


def truncated(checkpoint: Checkpoint, layers: int) -> Checkpoint:
    """Return a draft model with the embedding, the first `layers` layers and the head of a checkpoint."""
    model = checkpoint.model
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]
    smaller = type(model)(config)
    weights = model.state_dict()
    smaller.load_state_dict({name: weights[name] for name in smaller.state_dict()}, assign=True)
    smaller.tie_weights()
    name = f"{checkpoint.name}, {layers} layers"
    return wrap(name, smaller.to(model.device).eval(), checkpoint.tokenizer)


def trained_for(checkpoint: Checkpoint, mode: str) -> Checkpoint:
    """Return the checkpoint; for block diffusion, with the objective of that mode."""
    return replace(checkpoint, objective=mode) if mode == "block-diffusion" else checkpoint
