"""Draft models for tests: the first layers of a checkpoint."""

import copy

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
