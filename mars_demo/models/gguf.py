"""Weights from GGUF files, also split ones."""

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import torch
from gguf import (
    MODEL_ARCH,
    GGMLQuantizationType,
    GGUFReader,
    ReaderTensor,
    TensorNameMap,
    get_tensor_name_map,
)
from gguf.quants import dequantize
from transformers import GgufConfig, PreTrainedConfig, PreTrainedModel
from transformers.integrations.gguf.reader import read_gguf_metadata

from mars_demo.models.architectures import GGUF
from mars_demo.models.checkpoint import empty, from_files, require_fit
from mars_demo.models.names import parts
from mars_demo.models.quantized import Weights, of_gguf, quantize

_LAYERS = 128  # of a model, at most
_SAME = {8: GGMLQuantizationType.Q8_0, 4: GGMLQuantizationType.Q4_0}  # what the kernels read
# Not needed: the head is tied, the config has the frequencies.
_REPEATED = {"output.weight", "rope_freqs.weight"}


def read(file: Path, config: PreTrainedConfig, dtype: torch.dtype, device: str = "cpu") -> PreTrainedModel:
    """Return the model of a GGUF file, dequantized to `dtype` on a device. For a Llama this is several
    times as fast as transformers.

    Raises:
        OSError, ValueError: if the file is broken, of a model transformers does not know, or if its tensors
            are not those of the model.
    """
    if config.model_type not in GGUF:
        packed, found = from_files(
            file.parent,
            gguf_file=file.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=dtype,
        )
        require_fit(found["missing_keys"], (), found["unexpected_keys"])
        # What comes from a packed file cannot be saved or cast; its weights in a fresh model can.
        settings = packed.config.to_dict()
        settings.pop("quantization_config", None)
        model = empty(type(packed.config)(**settings))
        model.load_state_dict(packed.state_dict(), assign=True)
        model.generation_config = packed.generation_config
    else:
        model = empty(config)
        weights = {
            name: _unpacked(name, tensor, config).to(device, dtype) for name, tensor in _llama(file, config)
        }
        model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    # Position frequencies are not weights; they were made on the meta device.
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    return model.to(device)


def few_bits(file: Path, config: PreTrainedConfig, bits: int) -> Weights:
    """Return the weights of a Llama in few bits, tensor by tensor: those that the file holds in the same
    form are taken as they are, others are rounded.

    Raises:
        OSError, ValueError: as `read`.
    """
    matrices, vectors = {}, {}
    for name, tensor in _llama(file, config):
        if len(tensor.shape) == 1:
            vectors[name] = _unpacked(name, tensor, config)
        elif tensor.tensor_type == _SAME[bits]:
            same = of_gguf(np.array(tensor.data), bits)
            matrices[name] = same.ordered(_order(name, same.shape[0], config))
        else:
            matrices[name] = quantize(_unpacked(name, tensor, config), bits)
    return Weights(matrices, vectors)


def _llama(file: Path, config: PreTrainedConfig) -> Iterator[tuple[str, ReaderTensor]]:
    """Yield the tensors of a Llama by transformers' names, without a head that is the embedding again."""
    state, tensors = empty(config).state_dict(), packed_tensors(file)
    wanted = {name: tuple(w.shape) for name, w in state.items() if not is_tied(name, config)}
    shapes = {packed_name(name): shape for name, shape in wanted.items()}
    require_fit(
        shapes.keys() - tensors.keys(),
        [n for n in shapes.keys() & tensors.keys() if shapes[n] != tuple(tensors[n].shape[::-1])],
        tensors.keys() - shapes.keys() - _REPEATED,
    )
    for name in wanted:
        yield name, tensors[packed_name(name)]


def packed_tensors(file: Path) -> dict[str, ReaderTensor]:
    """Return the tensors of a GGUF file and of its other parts, if it is split, by its names for them;
    their values are views of the files.

    Raises:
        ValueError: if a file is broken or missing.
    """
    tensors = {}
    for part in parts(file):
        try:
            _require_counts(part)
            tensors |= {tensor.name: tensor for tensor in GGUFReader(part).tensors}
        except FileNotFoundError as error:
            raise ValueError(f"its part {part.name} is missing.") from error
        except (IndexError, ValueError, struct.error) as error:
            raise ValueError("the GGUF file is incomplete.") from error
    return tensors


def _require_counts(part: Path) -> None:
    """Refuse counts beyond the file, to which `GGUFReader` would count.

    Raises:
        ValueError, struct.error: if the header is not one of GGUF.
    """
    try:
        read_gguf_metadata(str(part))
    except ValueError as error:
        # It misses this name after it has read all others; only the first part of a split model has it.
        if "general.architecture" not in str(error) or part == parts(part)[0]:
            raise


def is_tied(name: str, config: PreTrainedConfig) -> bool:
    """Return whether a tensor is the embedding again."""
    return name == "lm_head.weight" and config.tie_word_embeddings


def _unpacked(name: str, tensor: ReaderTensor, config: PreTrainedConfig) -> torch.Tensor:
    array = dequantize(tensor.data, tensor.tensor_type)
    if rotated_heads(name, config):
        array = array[_order(name, array.shape[0], config)]
    return torch.from_numpy(np.array(array))  # the reader's own arrays are views of the file


def _order(name: str, rows: int, config: PreTrainedConfig) -> np.ndarray:
    """Return where a matrix's rows lie in a file: llama.cpp interleaves the halves of rotated heads."""
    order = np.arange(rows)
    if heads := rotated_heads(name, config):
        order = order.reshape(heads, -1, 2).swapaxes(1, 2).reshape(-1)
    return order


@cache
def _names() -> TensorNameMap:
    return get_tensor_name_map(MODEL_ARCH.LLAMA, _LAYERS)


def packed_name(name: str) -> str:
    """Return what GGUF calls a tensor of a Llama."""
    return _names().get_name(name, (".weight",))


def rotated_heads(name: str, config: PreTrainedConfig) -> int:
    """Return the number of heads of a matrix that makes queries or keys, 0 for any other."""
    if "q_proj" in name:
        return config.num_attention_heads
    return config.num_key_value_heads if "k_proj" in name else 0
