"""Small random models of each supported architecture."""

import copy
import json
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config, set_seed

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


def varied(model):
    """Change a model's biases and norms so that they matter; return it."""
    for name, value in model.named_parameters():
        if value.ndim == 1:
            value.data += 0.3 * torch.randn(value.shape, generator=torch.Generator().manual_seed(len(name)))
    return model


def dequantized(model):
    """Return a copy of a model with the dequantized weights of its quantized form."""
    model = copy.deepcopy(model)
    for value in model.state_dict().values():
        if value.ndim == 2:
            value.copy_(torch.from_numpy(quantize(value).rows(np.arange(len(value)))))
    return model


def publish(folder: Path, model, tokenizer, licence: str = "apache-2.0", **config) -> Path:
    """Save a Qwen2 model in the form of the paper's published checkpoints, with entries of `config`."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    file = folder / "config.json"
    stored = json.loads(file.read_text())
    for key in ("block_size", "mask_token_id", "objective"):
        stored.pop(key, None)
    stored |= {"model_type": "a2d-qwen2", "architectures": ["A2DQwen2LMHeadModel"]}
    file.write_text(json.dumps(stored | config))
    (folder / "README.md").write_text(f"---\nlicense: {licence}\n---\n")
    return folder
