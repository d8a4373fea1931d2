"""A reader of GGUF files, including split ones."""

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

from mars_demo.core.names import parts
from mars_demo.models.architectures import GGUF, empty
from mars_demo.models.checkpoint import from_files, require_fit
from mars_demo.models.runtime.quantized_weights import Weights, of_gguf, quantize

_LAYERS = 128  # the most layers of a model
# Redundant tensors: the head is tied, and the config has the frequencies.
_REPEATED = {"output.weight", "rope_freqs.weight"}


def read(file: Path, config: PreTrainedConfig, dtype: torch.dtype, device: str = "cpu") -> PreTrainedModel:
    """Return the model of a GGUF file, dequantized to `dtype` on a device.

    For a Llama this is several times as fast as transformers.

    Raises:
        OSError, ValueError: if the file is broken, transformers does not know its model type, or its
            tensors do not fit the model.
    """
    if config.model_type not in GGUF:
        quantized, report = from_files(
            file.parent,
            gguf_file=file.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=dtype,
        )
        require_fit(report["missing_keys"], (), report["unexpected_keys"])
        # transformers cannot save or cast a model from a quantized file, but it can a new model.
        settings = quantized.config.to_dict()
        settings.pop("quantization_config", None)
        model = empty(type(quantized.config)(**settings))
        model.load_state_dict(quantized.state_dict(), assign=True)
        model.generation_config = quantized.generation_config
    else:
        model = empty(config)
        weights = {
            name: _dequantized(name, tensor, config).to(device, dtype)
            for name, tensor in _llama(file, config)
        }
        model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    # Rotary frequencies are not among the weights, and those of the meta device have no values.
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    return model.to(device)


def read_quantized(file: Path, config: PreTrainedConfig) -> Weights:
    """Return the quantized weights of a Llama.

    Tensors that the file stores in the same format are not changed; others are quantized one by one.

    Raises:
        OSError, ValueError: as `read`.
    """
    matrices, vectors = {}, {}
    for name, tensor in _llama(file, config):
        if len(tensor.shape) == 1:
            vectors[name] = _dequantized(name, tensor, config)
        elif tensor.tensor_type == GGMLQuantizationType.Q8_0:
            same = of_gguf(np.array(tensor.data))
            matrices[name] = same.ordered(_order(name, same.shape[0], config))
        else:
            matrices[name] = quantize(_dequantized(name, tensor, config))
    return Weights(matrices, vectors)


def _llama(file: Path, config: PreTrainedConfig) -> Iterator[tuple[str, ReaderTensor]]:
    """Yield the tensors of a Llama by transformers' names, without a tied head."""
    state, tensors = empty(config).state_dict(), stored_tensors(file)
    needed = {name: tuple(w.shape) for name, w in state.items() if not is_tied(name, config)}
    shapes = {gguf_name(name): shape for name, shape in needed.items()}
    require_fit(
        shapes.keys() - tensors.keys(),
        [n for n in shapes.keys() & tensors.keys() if shapes[n] != tuple(tensors[n].shape[::-1])],
        tensors.keys() - shapes.keys() - _REPEATED,
    )
    for name in needed:
        yield name, tensors[gguf_name(name)]


def stored_tensors(file: Path) -> dict[str, ReaderTensor]:
    """Return the tensors of all parts of a GGUF model by GGUF's names; their values are views of the files.

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
    """Check that the header's counts fit the file size; `GGUFReader` would loop over any count.

    Raises:
        ValueError, struct.error: if the header is not valid.
    """
    try:
        read_gguf_metadata(str(part))
    except ValueError as error:
        # transformers requires this field last of all; only the first part of a split model has it.
        if "general.architecture" not in str(error) or part == parts(part)[0]:
            raise


def is_tied(name: str, config: PreTrainedConfig) -> bool:
    """Return whether a tensor is a tied head."""
    return name == "lm_head.weight" and config.tie_word_embeddings


def _dequantized(name: str, tensor: ReaderTensor, config: PreTrainedConfig) -> torch.Tensor:
    array = dequantize(tensor.data, tensor.tensor_type)
    if rotated_heads(name, config):
        array = array[_order(name, array.shape[0], config)]
    return torch.from_numpy(np.array(array))  # a copy, because the reader's arrays are views of the file


def _order(name: str, rows: int, config: PreTrainedConfig) -> np.ndarray:
    """Return the order of a matrix's rows in a file; llama.cpp interleaves the halves of rotary heads."""
    order = np.arange(rows)
    if heads := rotated_heads(name, config):
        order = order.reshape(heads, -1, 2).swapaxes(1, 2).reshape(-1)
    return order


@cache
def _names() -> TensorNameMap:
    return get_tensor_name_map(MODEL_ARCH.LLAMA, _LAYERS)


def gguf_name(name: str) -> str:
    """Return the GGUF name of a Llama's tensor."""
    return _names().get_name(name, (".weight",))


def rotated_heads(name: str, config: PreTrainedConfig) -> int:
    """Return the number of heads of a query or key projection; 0 for any other tensor."""
    if "q_proj" in name:
        return config.num_attention_heads
    return config.num_key_value_heads if "k_proj" in name else 0
