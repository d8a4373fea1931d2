"""Checkpoints for the tests: the bundled ones, and small random models of each supported architecture."""

from __future__ import annotations

import os

# Set before anything imports transformers or gradio: no test asks a hub or reports home.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    Qwen2Config,
    Qwen3Config,
    set_seed,
)

from mars_demo import checkpoints

ARCHITECTURES = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}


@pytest.fixture(scope="session")
def tokenizer():
    return AutoTokenizer.from_pretrained(checkpoints.ASSETS / "mars-tiny")


@pytest.fixture(scope="session")
def mars_tiny():
    return checkpoints.load("mars-tiny", device="cpu")


@pytest.fixture(scope="session")
def ar_tiny():
    return checkpoints.load("ar-tiny", device="cpu")


def random_model(architecture: str, tokenizer, context: int = 96):
    """A float32 model with weights large enough that its answers vary with the prompt."""
    set_seed(7)
    config = ARCHITECTURES[architecture](
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=context,
        tie_word_embeddings=False,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    config.block_size, config.mask_token_id = 8, tokenizer.mask_token_id
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


@pytest.fixture(scope="session", params=ARCHITECTURES)
def random_checkpoint(request, tokenizer):
    """One random MARS checkpoint per architecture; its end token is far from likely."""
    return checkpoints.wrap(request.param, random_model(request.param, tokenizer), tokenizer)
