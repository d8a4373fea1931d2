"""A reader of GGUF files, including split ones.

It is several times as fast as transformers, which reads no split files.
"""

import struct
from pathlib import Path

import numpy as np
import torch
from gguf import MODEL_ARCH, GGMLQuantizationType, GGUFReader, ReaderTensor, get_tensor_name_map
from gguf.quants import dequantize
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.integrations.gguf.reader import read_gguf_metadata

from mars_demo.core.names import parts
from mars_demo.models.architectures import LLAMA_LIKE, empty
from mars_demo.models.checkpoint import require_fit

GROUP = 32  # weights that share a scale in Q8_0
# Redundant tensors: the head is tied, and the config has the frequencies.
_REPEATED = {"output.weight", "rope_freqs.weight"}


def read_gguf(
    file: Path, config: PreTrainedConfig, dtype: torch.dtype, device: str = "cpu"
) -> PreTrainedModel:
    """Return the model of a GGUF file, dequantized to `dtype` on a device.

    Raises:
        OSError, ValueError: if the file is broken, its model type is not supported, or its tensors do not
            fit the model.
    """
    model = empty(config)
    weights = {name: tensor[:].to(device, dtype) for name, tensor in tensors(file, config).items()}
    model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    # Rotary frequencies are not among the weights, and those of the meta device have no values.
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    return model.to(device).eval()


class GgufTensor:
    """A tensor of a GGUF file, dequantized by rows."""

    def __init__(self, name: str, tensor: ReaderTensor, config: PreTrainedConfig):
        self.shape = tuple(map(int, tensor.shape[::-1]))
        self._tensor = tensor
        self._order = np.arange(self.shape[0])
        if heads := rotated_heads(name, config):
            self._order = self._order.reshape(heads, -1, 2).swapaxes(1, 2).reshape(-1)

    def __getitem__(self, rows: slice) -> torch.Tensor:
        data = self._tensor.data[self._order[rows]]  # a copy: the reader's arrays are views of the file
        if self._tensor.tensor_type != GGMLQuantizationType.Q8_0:
            return torch.from_numpy(dequantize(data, self._tensor.tensor_type))
        # Several times as fast as `dequantize`: blocks of a float16 scale and `GROUP` signed bytes.
        blocks = np.asarray(data).reshape(-1, 2 + GROUP)
        scales = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        return torch.from_numpy(blocks[:, 2:].view(np.int8) * scales).view(len(data), -1)


def tensors(file: Path, config: PreTrainedConfig) -> dict[str, GgufTensor]:
    """Return the tensors of a model by transformers' names, without a tied head.

    Raises:
        OSError, ValueError: as `read`.
    """
    if config.model_type not in LLAMA_LIKE:
        raise ValueError(f"GGUF files of {config.model_type} models are not supported; use safetensors.")
    names, stored, state = tensor_names(config), _stored(file), empty(config).state_dict()
    shapes = {theirs: tuple(state[name].shape) for name, theirs in names.items()}
    require_fit(
        shapes.keys() - stored.keys(),
        [n for n in shapes.keys() & stored.keys() if shapes[n] != tuple(stored[n].shape[::-1])],
        stored.keys() - shapes.keys() - _REPEATED,
    )
    return {name: GgufTensor(name, stored[theirs], config) for name, theirs in names.items()}


def tensor_names(config: PreTrainedConfig) -> dict[str, str]:
    """Return GGUF's names of a model's tensors by transformers' names, without a tied head."""
    names = get_tensor_name_map(MODEL_ARCH[config.model_type.upper()], config.num_hidden_layers)
    needed = [*empty(config).state_dict()]
    if config.tie_word_embeddings:
        needed.remove("lm_head.weight")
    return {name: names.get_name(name, (".weight", ".bias")) for name in needed}


def _stored(file: Path) -> dict[str, ReaderTensor]:
    """Return the tensors of all parts of a GGUF model by GGUF's names; their values are views of the files.

    Raises:
        ValueError: if a file is broken or missing.
    """
    tensors = {}
    for part in parts(file):
        try:
            if part == parts(file)[0]:
                read_gguf_metadata(
                    str(part)
                )  # checks the header's counts, over which `GGUFReader` would loop
            tensors |= {tensor.name: tensor for tensor in GGUFReader(part).tensors}
        except FileNotFoundError as error:
            raise ValueError(f"its part {part.name} is missing.") from error
        except (IndexError, ValueError, struct.error) as error:
            raise ValueError("the GGUF file is incomplete.") from error
    return tensors


def rotated_heads(name: str, config: PreTrainedConfig) -> int:
    """Return the number of heads of a tensor whose rows a file interleaves, otherwise 0.

    llama.cpp interleaves the halves of each head's rows in the query and key projections of Llama.
    """
    if config.model_type != "llama":
        return 0
    if "q_proj" in name:
        return config.num_attention_heads
    return config.num_key_value_heads if "k_proj" in name else 0
