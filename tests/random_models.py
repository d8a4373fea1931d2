"""Small random models of each supported architecture."""

import copy
import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config, set_seed

from mars_demo.models.runtime.rotation import Rotation

INTERMEDIATE = 96  # a width that no other layer has
ARCHITECTURES = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}


def random_model(architecture: str, tokenizer, context=96, head_dim=8, tied=False, **settings):
    """Return a random float32 model; its weights are large enough for answers to vary with the prompt."""
    set_seed(7)
    config = ARCHITECTURES[architecture](
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=INTERMEDIATE,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=head_dim,
        max_position_embeddings=context,
        tie_word_embeddings=tied,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **settings,
    )
    config.block_size, config.mask_token_id = 8, tokenizer.mask_token_id
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32, trust_remote_code=False).eval()


def varied(model):
    """Change a model's biases and norms so that they matter; return it."""
    for name, value in model.named_parameters():
        if value.ndim == 1:
            value.data += 0.3 * torch.randn(value.shape, generator=torch.Generator().manual_seed(len(name)))
    return model


def rounded(model):
    """Return a plain model with the rounded weights of the model's quantized form.

    Its residual stream is rotated, the gains of its norms are in the layers that follow, and every row of a
    matrix is rounded to 8 bits. Its inputs are not rounded.
    """
    model, rotation = copy.deepcopy(model), Rotation(model.config.hidden_size)
    body, head = model.model, model.lm_head
    head.weight = torch.nn.Parameter(head.weight.detach().clone())  # a tied one is another matrix now
    readers = [(body.norm, [head])]
    with torch.no_grad():
        for layer in body.layers:
            attention, mlp = layer.self_attn, layer.mlp
            readers.append((layer.input_layernorm, [attention.q_proj, attention.k_proj, attention.v_proj]))
            readers.append((layer.post_attention_layernorm, [mlp.gate_proj, mlp.up_proj]))
            for writer in (attention.o_proj, mlp.down_proj):
                writer.weight.copy_(rotation(writer.weight.T).T)
                if writer.bias is not None:
                    writer.bias.copy_(rotation(writer.bias))
        for norm, layers in readers:
            for layer in layers:
                layer.weight.copy_(rotation(layer.weight * norm.weight))
            norm.weight.fill_(1)
        body.embed_tokens.weight.copy_(rotation(body.embed_tokens.weight))
        for weight in (weight for weight in model.parameters() if weight.ndim == 2):
            steps = weight.abs().amax(-1, keepdim=True) / 127
            weight.copy_((weight / steps.clamp(min=1e-30)).round() * steps)
    return model


def rounding(linear, inputs):
    """Round the inputs of a product to 8 bits with a scale per row, those of down_proj to 16 bits."""
    steps = inputs[0].abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
    shares = inputs[0] / steps
    coarse = shares.round()
    is_fine = linear.in_features == INTERMEDIATE
    return ((coarse + ((shares - coarse) * 254).round() / 254 if is_fine else coarse) * steps,)


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
