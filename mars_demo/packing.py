"""Checkpoints packed as GGUF: fewer than 8 bits per weight on disk, dense again once loaded.

transformers reads the file; the tokenizer lies beside it, as in any checkpoint folder.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from transformers import GgufConfig, LlamaForCausalLM, PreTrainedConfig, PreTrainedModel

FILE = "model.gguf"
_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
# How each kind of matrix is stored, under 100 MB for 135 million weights; norms stay float32. Rows of 576
# weights are no multiple of 256, so there are no K types.
Q8, Q5_1, Q5_0, Q4 = (
    GGMLQuantizationType.Q8_0,
    GGMLQuantizationType.Q5_1,
    GGMLQuantizationType.Q5_0,
    GGMLQuantizationType.Q4_1,
)
RECIPES = {
    "Q8_0": {"token_embd": Q8, "attn": Q8, "ffn": Q8},  # over 100 MB, to compare
    "Q4_1": {"token_embd": Q4, "attn": Q4, "ffn": Q4},
    "Q5_0": {"token_embd": Q5_0, "attn": Q5_0, "ffn": Q5_0},
    "Q5_1, embedding Q5_0": {"token_embd": Q5_0, "attn": Q5_1, "ffn": Q5_1},
    "Q4_1, embedding Q8_0": {"token_embd": Q8, "attn": Q4, "ffn": Q4},
    "Q4_1, attention Q5_0, embedding Q8_0": {"token_embd": Q8, "attn": Q5_0, "ffn": Q4},
    "Q4_1, attention Q8_0, embedding Q5_1": {"token_embd": Q5_1, "attn": Q8, "ffn": Q4},
}


def load(file: Path, config: PreTrainedConfig | None, dtype: torch.dtype) -> PreTrainedModel:
    """The model of a GGUF file, dense in `dtype`; `config` is its own if None.

    Raises:
        OSError, ValueError: if the file is broken or of a model transformers does not know.
    """
    packed = LlamaForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, quantization_config=GgufConfig(dequantize=True), dtype=dtype
    )
    # What comes from a packed file cannot be saved or cast; its weights in a fresh model can.
    settings = packed.config.to_dict()
    settings.pop("quantization_config", None)
    alone = config is None
    config = config or type(packed.config)(**settings)
    config._attn_implementation = "sdpa"
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model.load_state_dict(packed.state_dict(), assign=True)
    model.tie_weights()
    if alone:
        model.generation_config = packed.generation_config
    # Position frequencies are no weights; they were made on the meta device.
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return model


def pack(model: LlamaForCausalLM, folder: Path, output: Path, recipe: dict) -> Path:
    """Write `output`, a copy of the checkpoint `folder` with `model`'s weights packed; returns the file.

    Logs and states of a training stay behind.

    Raises:
        ValueError: if the model is no Llama, whose tensors alone this knows to name.
    """
    if not isinstance(model, LlamaForCausalLM):
        raise ValueError(f"Only Llama models can be packed, not {type(model).__name__}.")
    output.mkdir(parents=True, exist_ok=True)
    for item in folder.iterdir():
        if item.suffix in (".json", ".jinja") or item.name == "LICENSE":
            shutil.copy(item, output)
    if (folder / "custom_generate").exists():
        shutil.copytree(folder / "custom_generate", output / "custom_generate", dirs_exist_ok=True)
    config, file = model.config, output / FILE
    writer = GGUFWriter(file, "llama")
    writer.add_name(output.name)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        packed_name, array = _named(name, weight.float().numpy(), config)
        kind = _kind(packed_name, array, recipe)
        writer.add_tensor(packed_name, quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _named(name: str, array: np.ndarray, config: PreTrainedConfig) -> tuple[str, np.ndarray]:
    """A tensor as GGUF names and lays it out: queries and keys with the halves of each head interleaved."""
    outer = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in outer:
        return outer[name], array
    _, _, layer, rest = name.split(".", 3)
    rest = rest.removesuffix(".weight")
    heads = {"self_attn.q_proj": config.num_attention_heads, "self_attn.k_proj": config.num_key_value_heads}
    if rest in heads:
        rows, columns = array.shape
        halves = array.reshape(heads[rest], 2, rows // heads[rest] // 2, columns)
        array = np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, columns))
    return f"blk.{layer}.{_LAYER[rest]}.weight", array


def _kind(name: str, array: np.ndarray, recipe: dict) -> GGMLQuantizationType:
    if array.ndim < 2:
        return GGMLQuantizationType.F32
    if name.startswith(("token_embd", "output")):
        return recipe["token_embd"]
    return recipe["attn" if ".attn_" in name else "ffn"]
