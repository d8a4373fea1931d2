"""Checkpoints packed as GGUF: fewer than 8 bits per weight on disk, dense again once loaded.

transformers reads the file; the tokenizer lies beside it, as in any checkpoint folder.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, ReaderTensor
from gguf.quants import dequantize, quantize
from transformers import (
    AutoModelForCausalLM,
    GgufConfig,
    LlamaForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
)

from mars_demo import calibration, checkpoints

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
_OUTER = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_REPEATED = {"output.weight", "rope_freqs.weight"}  # of a tied head and of what the config says: not needed
# How each kind of matrix is stored, under 100 MB for 135 million weights; norms stay float32. Rows of 576
# weights are no multiple of 256, so there are no K types.
Q8, Q5_1, Q5_0, Q4 = (
    GGMLQuantizationType.Q8_0,
    GGMLQuantizationType.Q5_1,
    GGMLQuantizationType.Q5_0,
    GGMLQuantizationType.Q4_1,
)
BITS = {Q4: 4, Q5_1: 5}  # of the types whose groups have a scale and an offset
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
    """The model of a GGUF file, dense in `dtype`. transformers makes it, from the file alone, which takes
    several times as long as what is done here for a Llama whose `config` is known.

    Raises:
        OSError, ValueError: if the file is broken, of a model transformers does not know, or if its tensors
            are not those of the model.
    """
    if config is None or config.model_type != "llama":
        packed, found = AutoModelForCausalLM.from_pretrained(
            file.parent,
            gguf_file=file.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=dtype,
            trust_remote_code=False,
            output_loading_info=True,
        )
        checkpoints.require_fit(found["missing_keys"], (), found["unexpected_keys"])
        # What comes from a packed file cannot be saved or cast; its weights in a fresh model can.
        settings = packed.config.to_dict()
        settings.pop("quantization_config", None)
        model = _empty(type(packed.config)(**settings))
        model.load_state_dict(packed.state_dict(), assign=True)
        model.generation_config = packed.generation_config
    else:
        model = _empty(config)
        tensors = _tensors(file)
        wanted = {name: w.shape for name, w in model.state_dict().items() if not _is_tied(name, config)}
        shapes = {_packed_name(name): shape for name, shape in wanted.items()}
        checkpoints.require_fit(
            shapes.keys() - tensors.keys(),
            [n for n in shapes.keys() & tensors.keys() if shapes[n] != tuple(tensors[n].shape[::-1])],
            tensors.keys() - shapes.keys() - _REPEATED,
        )
        weights = {name: _unpacked(name, tensors, config).to(dtype) for name in wanted}
        model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    # Position frequencies are no weights; they were made on the meta device.
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    return model


def _tensors(file: Path) -> dict[str, ReaderTensor]:
    try:
        return {tensor.name: tensor for tensor in GGUFReader(file).tensors}
    except IndexError as error:
        raise ValueError("the GGUF file is cut short.") from error


def _empty(config: PreTrainedConfig) -> PreTrainedModel:
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", trust_remote_code=False)


def _is_tied(name: str, config: PreTrainedConfig) -> bool:
    return name == "lm_head.weight" and config.tie_word_embeddings


def _unpacked(name: str, tensors: dict[str, ReaderTensor], config: PreTrainedConfig) -> torch.Tensor:
    tensor = tensors[_packed_name(name)]
    array = dequantize(tensor.data, tensor.tensor_type)
    if heads := _rotated_heads(name, config):
        array = array.reshape(heads, -1, 2, array.shape[-1]).swapaxes(1, 2).reshape(array.shape)
    return torch.from_numpy(np.array(array))  # the reader's own arrays lie in the file


def pack(
    model: LlamaForCausalLM, folder: Path, output: Path, recipe: dict, moments: dict | None = None
) -> Path:
    """Write `output`, a copy of the checkpoint `folder` with `model`'s weights packed; returns the file.

    Logs and states of a training stay behind. With `moments`, those of `calibration.second_moments`, the
    matrices in Q4_1 and Q5_1 are rounded for them, the others to the nearest value.

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
        if _is_tied(name, config):
            continue
        packed_name = _packed_name(name)
        kind = _kind(packed_name, weight, recipe)
        if kind in BITS and name in moments:
            array = _blocks(calibration.rounded(weight, BITS[kind], moments[name]))
        else:
            array = quantize(weight.float().numpy(), kind)
        if heads := _rotated_heads(name, config):
            # GGUF has the two halves of a head's rows interleaved.
            array = array.reshape(heads, 2, -1, array.shape[-1]).swapaxes(1, 2).reshape(array.shape)
        writer.add_tensor(packed_name, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _packed_name(name: str) -> str:
    if name in _OUTER:
        return _OUTER[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{_LAYER[rest.removesuffix('.weight')]}.weight"


def _rotated_heads(name: str, config: PreTrainedConfig) -> int:
    """The heads of a matrix that makes queries or keys, 0 of any other."""
    if "q_proj" in name:
        return config.num_attention_heads
    return config.num_key_value_heads if "k_proj" in name else 0


def _blocks(found: calibration.Rounded) -> np.ndarray:
    """[rows, bytes] as Q4_1 or Q5_1 lay them out: by group scale, offset, the fifth bits, if there are any,
    and the other four, the group's second half in the upper ones."""
    codes, scales, offsets = found.codes.numpy(), found.scales.numpy(), found.offsets.numpy()
    rows, groups = scales.shape
    grouped = codes.reshape(rows, groups, 2, calibration.GROUP // 2)
    parts = [part[..., None].view(np.uint8) for part in (scales, offsets)]
    if found.bits == 5:
        fifth = (grouped >> 4).reshape(rows, groups, calibration.GROUP)
        parts.append(np.packbits(fifth, axis=-1, bitorder="little"))
    parts.append((grouped[:, :, 0] & 15) | (grouped[:, :, 1] << 4))
    return np.concatenate(parts, axis=-1).reshape(rows, -1)


def _kind(name: str, array: torch.Tensor, recipe: dict) -> GGMLQuantizationType:
    if array.ndim < 2:
        return GGMLQuantizationType.F32
    if name.startswith(("token_embd", "output")):
        return recipe["token_embd"]
    return recipe["attn" if ".attn_" in name else "ffn"]
