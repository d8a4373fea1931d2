"""A reader of safetensors files by rows, for models that are quantized while they are read."""

from pathlib import Path

import torch
from safetensors import safe_open
from transformers import PreTrainedConfig

from mars_demo.models.architectures import empty
from mars_demo.models.checkpoint import require_fit


class StoredTensor:
    """A tensor of a file, read by rows."""

    def __init__(self, file: safe_open, name: str):
        self._slice = file.get_slice(name)
        self.shape = tuple(self._slice.get_shape())

    def __getitem__(self, rows: slice) -> torch.Tensor:
        return self._slice[rows]


def stored_tensors(folder: Path, config: PreTrainedConfig) -> dict[str, StoredTensor]:
    """Return the tensors of a model in a folder by their names.

    Raises:
        OSError, ValueError: if a file is broken, or the tensors do not fit the model.
    """
    stored = {}
    for path in sorted(folder.glob("model*.safetensors")):
        file = safe_open(path, framework="pt")
        stored |= {name: StoredTensor(file, name) for name in file.keys()}  # noqa: SIM118
    shapes = {name: tuple(value.shape) for name, value in empty(config).state_dict().items()}
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    require_fit(
        shapes.keys() - stored.keys() - tied,
        [name for name in shapes.keys() & stored.keys() if shapes[name] != stored[name].shape],
        stored.keys() - shapes.keys(),
    )
    return stored
