"""Small random models of each supported architecture."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config, set_seed

from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.runtime.decoder import Decoder
from mars_demo.models.runtime.quantized_weights import quantize

ARCHITECTURES = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}


def random_model(architecture: str, tokenizer, context: int = 96, head_dim: int = 8):
    """Return a random float32 model; its weights are large enough for answers to vary with the prompt."""
    set_seed(7)
    config = ARCHITECTURES[architecture](
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=head_dim,
        max_position_embeddings=context,
        tie_word_embeddings=False,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    config.block_size, config.mask_token_id = 8, tokenizer.mask_token_id
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32, trust_remote_code=False).eval()


def with_other_norms(model):
    """Return the model after a change of its norms and biases, which otherwise have no effect."""
    for name, value in model.named_parameters():
        if value.ndim == 1:
            value.data += 0.3 * torch.randn(value.shape, generator=torch.Generator().manual_seed(len(name)))
    return model


def with_rounded_weights(model):
    """Return a copy of a plain model with the dequantized weights of its quantized form."""
    state = {
        name: torch.from_numpy(quantize(value).rows(np.arange(len(value)))) if value.ndim == 2 else value
        for name, value in model.state_dict().items()
    }
    rounded = type(model)(model.config).eval()
    rounded.load_state_dict(state)
    return rounded


def with_decoder(checkpoint: Checkpoint, decoder: Decoder) -> Checkpoint:
    """Return the checkpoint with another decoder of single texts."""
    changed = replace(checkpoint)
    vars(changed)["decoder"] = decoder  # otherwise a property, computed once
    return changed


def publish(folder: Path, target: Path, licence: str) -> None:
    """Copy the folder of a Qwen2 model in the form of the paper's published checkpoints."""
    shutil.copytree(folder, target)
    file = target / "config.json"
    config = json.loads(file.read_text())
    config |= {"model_type": "a2d-qwen2", "architectures": ["A2DQwen2LMHeadModel"]}
    for key in ("block_size", "mask_token_id", "objective"):
        config.pop(key, None)
    file.write_text(json.dumps(config))
    (target / "README.md").write_text(f"---\nlicense: {licence}\n---\n")
