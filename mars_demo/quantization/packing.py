"""Checkpoints packed as GGUF: fewer than 8 bits per weight on disk, dense again once loaded.

transformers reads the file; the tokenizer is next to it, as in any checkpoint folder.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from transformers import LlamaForCausalLM

from mars_demo.models import gguf
from mars_demo.quantization import gptq

FILE = "model.gguf"
Q8, Q5_1, Q5_0 = GGMLQuantizationType.Q8_0, GGMLQuantizationType.Q5_1, GGMLQuantizationType.Q5_0
# How each kind of matrix is stored; norms stay float32. Rows of 576 weights are not a multiple of 256, so K
# types cannot be used.
RECIPES = {
    "Q8_0": {"token_embd": Q8, "attn": Q8, "ffn": Q8},
    "Q5_1, embedding Q5_0": {"token_embd": Q5_0, "attn": Q5_1, "ffn": Q5_1},  # 135 million in 100 MB
}
SYMMETRIC = {Q5_1: False, Q5_0: True}  # the types that GPTQ can round to


def pack(
    model: LlamaForCausalLM, folder: Path, output: Path, recipe: dict, moments: dict | None = None
) -> Path:
    """Write `output`, a copy of the checkpoint `folder` with `model`'s weights packed; returns the file.

    Training logs and states are not copied. With `moments`, from `gptq.second_moments`, the matrices in one
    of `SYMMETRIC` are rounded by GPTQ, the others to the nearest value.

    Raises:
        ValueError: if the model is not a Llama; only its tensor names are known here.
    """
    if not isinstance(model, LlamaForCausalLM):
        raise ValueError(f"Only Llama models can be packed, not {type(model).__name__}.")
    output.mkdir(parents=True, exist_ok=True)
    for item in folder.iterdir():
        if item.suffix in (".json", ".jinja") or item.name == "LICENSE":
            shutil.copy(item, output)
    if (folder / "custom_generate").exists():
        shutil.copytree(folder / "custom_generate", output / "custom_generate", dirs_exist_ok=True)
    config, file, moments = model.config, output / FILE, moments or {}
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
        if gguf.is_tied(name, config):
            continue
        packed_name = gguf.packed_name(name)
        kind = _kind(packed_name, weight, recipe)
        if kind in SYMMETRIC and name in moments:
            array = _blocks(gptq.rounded(weight, moments[name], SYMMETRIC[kind]))
        else:
            array = quantize(weight.float().numpy(), kind)
        if heads := gguf.rotated_heads(name, config):
            # GGUF has the two halves of a head's rows interleaved.
            array = array.reshape(heads, 2, -1, array.shape[-1]).swapaxes(1, 2).reshape(array.shape)
        writer.add_tensor(packed_name, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _blocks(found: gptq.Rounded) -> np.ndarray:
    """Return [rows, bytes] as GGUF lays them out: by group the scale, the offset unless it is symmetric,
    the fifth bits, and the other four, the group's second half in the upper ones."""
    codes, scales, offsets = found.codes.numpy(), found.scales.numpy(), found.offsets.numpy()
    rows, groups = scales.shape
    grouped = codes.reshape(rows, groups, 2, gptq.GROUP // 2)
    kept = [scales] if found.symmetric else [scales, offsets]
    parts = [part[..., None].view(np.uint8) for part in kept]
    fifth = (grouped >> 4).reshape(rows, groups, gptq.GROUP)
    parts.append(np.packbits(fifth, axis=-1, bitorder="little"))
    parts.append((grouped[:, :, 0] & 15) | (grouped[:, :, 1] << 4))
    return np.concatenate(parts, axis=-1).reshape(rows, -1)


def _kind(name: str, array: torch.Tensor, recipe: dict) -> GGMLQuantizationType:
    if array.ndim < 2:
        return GGMLQuantizationType.F32
    if name.startswith(("token_embd", "output")):
        return recipe["token_embd"]
    return recipe["attn" if ".attn_" in name else "ffn"]
