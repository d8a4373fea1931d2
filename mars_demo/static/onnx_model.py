"""Export of checkpoints as ONNX models that decode in a browser."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from onnx import TensorProto

from mars_demo.core.layout import Layout, causal, verification, window
from mars_demo.core.messages import user
from mars_demo.models.architectures import head_width
from mars_demo.models.chat import render, with_slots
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.export import LICENSE
from mars_demo.models.facts import beside, front_matter
from mars_demo.models.runtime.attention import COLUMNS, PlainAttention
from mars_demo.models.runtime.decoder import Decoder, TransformersDecoder
from mars_demo.models.runtime.engine import Engine
from mars_demo.models.runtime.onnx_graph import DecoderGraph, put_outside, unsupported
from mars_demo.models.runtime.quantized import UNSEEN, QuantizedModel
from mars_demo.models.runtime.weights import QuantizedWeights, Weights
from mars_demo.static.space import check_new

MODEL, DESCRIPTION = "model.onnx", "decoder.json"
MODES = ("ar", "mars", "lossless")  # the modes of the decoder in the browser
WEIGHTS = "weights-{}.bin"
PART = 95_000_000  # bytes of weights in a file: some hosts accept no file of 100 MB
OUTSIDE = 1024  # bytes of the smallest tensor in such a file
LARGEST = 2_000_000_000  # bytes of tensors; a browser's WebAssembly has 4 GB for these and their copies
SMALL = 50_000_000  # parameters of a model that needs no quantization
# The largest difference of logits by bits, relative to the largest logit. Rounding to bytes makes a step
# of a difference in the last digits of attention.
TOLERANCE = {32: 1e-3, 8: 5e-2}
PROMPT, DRAFTS = 24, 4  # tokens of the compared forwards


def default_bits(checkpoint: Checkpoint) -> int:
    """Return the bits per weight for a checkpoint of this size."""
    return 32 if checkpoint.model.num_parameters() < SMALL else 8


def write_onnx(checkpoint: Checkpoint, output: Path, bits: int) -> None:
    """Write a folder with the model, its tokenizer, and `decoder.json`, which describes both.

    The exported model's logits are compared with those of the engine. The folder appears when it is
    complete.

    checkpoint: a checkpoint in float32.
    bits: bits per weight: 32 for float32, or 8.

    Raises:
        ValueError: if the folder is not empty, the model is not supported, or its logits differ.
    """
    check_new(output)
    if checkpoint.precision != "float32":
        raise ValueError(f"{checkpoint.name} is in {checkpoint.precision}; load it in float32.")
    config = checkpoint.model.config
    if reason := unsupported(config):
        raise ValueError(f"{checkpoint.name} cannot be exported: {reason}")
    if not set(MODES) & set(checkpoint.modes):
        raise ValueError(f"{checkpoint.name} cannot be exported: it decodes in none of {', '.join(MODES)}.")
    if checkpoint.model.num_parameters() * bits / 8 > LARGEST:
        raise ValueError(f"{checkpoint.name} is too large for a browser: its weights have more than 2 GB.")
    tensors = {name: value.cpu() for name, value in checkpoint.model.state_dict().items()}
    weights = (Weights if bits == 32 else QuantizedWeights)(tensors, config.tie_word_embeddings)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{output.name}-", dir=output.parent) as unfinished:
        folder = Path(unfinished) / output.name
        checkpoint.tokenizer.save_pretrained(folder)
        # Unsigned weights are exact on every CPU, and as fast as signed ones in WebAssembly.
        graph = DecoderGraph(config, weights, PlainAttention(config), signed=False)
        model = graph.model(_Files(folder))
        (folder / MODEL).write_bytes(model.SerializeToString())
        decoder = TransformersDecoder(checkpoint.model) if bits == 32 else QuantizedModel(config, weights)
        if not _agrees(ExportedModel(folder / MODEL), decoder, checkpoint, TOLERANCE[bits]):
            raise ValueError(f"The exported model does not compute the logits of {checkpoint.name}.")
        card = front_matter(checkpoint.source)
        if licence := _licence(checkpoint, card):
            shutil.copy(licence, folder)
        description = _described(checkpoint) | {
            "dtype": "float32" if bits == 32 else f"int{bits}",
            "license": card.get("license"),
            "base_model": card.get("base_model"),
        }
        description["files"] = {file.name: _facts(file) for file in sorted(folder.iterdir())}
        text = json.dumps(description, indent=1, ensure_ascii=False) + "\n"
        (folder / DESCRIPTION).write_text(text, encoding="utf-8")
        if output.exists():
            output.rmdir()  # Windows does not replace folders
        os.replace(folder, output)


def _described(checkpoint: Checkpoint) -> dict[str, Any]:
    config, tokenizer = checkpoint.model.config, checkpoint.tokenizer
    path = Path(checkpoint.name)
    before, after = _around_prompt(checkpoint) if checkpoint.has_template else ("", "")
    return {
        "name": path.resolve().name if path.exists() else checkpoint.name,
        "layers": config.num_hidden_layers,
        "heads": config.num_key_value_heads,
        "width": head_width(config),
        "vocabulary": config.vocab_size,
        "context": checkpoint.context,
        "mask_id": checkpoint.mask_id,
        "block_size": checkpoint.block_size,
        "window": checkpoint.largest_window,
        "end_ids": sorted(checkpoint.end_ids),
        "modes": [mode for mode in MODES if mode in checkpoint.modes],
        "raw": not checkpoint.has_template,
        "before": before,
        "after": after,
        "special": sorted(tokenizer.get_added_vocab()),
    }


def _around_prompt(checkpoint: Checkpoint) -> list[str]:
    messages, _ = with_slots([user("")])
    parts = render(checkpoint.tokenizer, messages, reply=True).split(messages[0]["content"])
    if len(parts) != 2:
        raise ValueError(f"The chat template of {checkpoint.name} does not contain the prompt once.")
    return parts


class _Files:
    """The weights of an exported model as external data, in files of at most `PART` bytes.

    A larger tensor has a file of its own. A browser reads external data without a second copy.
    """

    def __init__(self, folder: Path):
        self._folder, self._number, self._size = folder, 1, 0

    def __call__(self, tensor: TensorProto, array: np.ndarray) -> None:
        """Store the values of a tensor: small ones in the model itself."""
        if array.nbytes < OUTSIDE:
            tensor.raw_data = array.tobytes()
            return
        if self._size and self._size + array.nbytes > PART:
            self._number, self._size = self._number + 1, 0
        name = WEIGHTS.format(self._number)
        with (self._folder / name).open("ab") as file:
            file.write(array.tobytes())
        put_outside(tensor, location=name, offset=self._size, length=array.nbytes)
        self._size += array.nbytes


def _licence(checkpoint: Checkpoint, card: dict[str, Any]) -> Path | None:
    """Return the licence file of a checkpoint, or the Apache licence if its model card names that."""
    if checkpoint.source and (file := beside(checkpoint.source, "LICENSE")).exists():
        return file
    return LICENSE if card.get("license") == "apache-2.0" else None


def _facts(file: Path) -> dict[str, Any]:
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return {"bytes": file.stat().st_size, "sha256": digest}


def _agrees(exported: ExportedModel, decoder: Decoder, checkpoint: Checkpoint, tolerance: float) -> bool:
    """Return whether an exported model computes a decoder's logits: of a prompt, of a window, of drafts."""
    engine = Engine(decoder)
    size, random = checkpoint.model.config.vocab_size, torch.Generator().manual_seed(0)
    ids = torch.randint(size, (PROMPT + 2 + DRAFTS,), generator=random).tolist()
    masks, mask_id = checkpoint.largest_window - 1, checkpoint.mask_id
    for layout in (
        causal(ids[:PROMPT]),
        window(ids[PROMPT : PROMPT + 1], masks, mask_id, PROMPT),
        verification(ids[PROMPT + 1 : PROMPT + 2], ids[-DRAFTS:], masks, mask_id, PROMPT + 1),
    ):
        expected = engine.forward(layout).cpu().numpy()
        engine.commit(1 if engine.length else PROMPT)
        if not np.abs(exported.forward(layout) - expected).max() <= tolerance * np.abs(expected).max():
            return False  # also for NaN
    return True


class ExportedModel:
    """An exported model in Python, with the keys and values of one text."""

    def __init__(self, file: Path):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        self._session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        shapes = {given.name: given.shape for given in self._session.get_inputs()}
        self._stores = {
            name: np.zeros((1, shape[1], 0, shape[3]), np.float32)
            for name, shape in shapes.items()
            if name.startswith(("key.", "value."))
        }

    def forward(self, layout: Layout, first: int = 0) -> np.ndarray:
        """Return the logits [n - first, vocabulary] of the layout's positions from `first` on.

        Keys and values beyond the layout's past are overwritten.
        """
        count, total = layout.visible.shape[1:]
        past, rest = total - count, -total % COLUMNS
        visible = np.pad(layout.visible[0].numpy(), [(0, 0), (0, rest)])
        _, heads, _, width = self._stores["key.0"].shape
        inputs = {
            "ids": layout.ids.numpy(),
            "positions": layout.positions.numpy(),
            "bias": np.where(visible, np.float32(0), UNSEEN),
            "rest": np.zeros((1, heads, rest, width), np.float32),
            "rows": np.arange(first, count),
        }
        cached = {name: store[:, :, :past] for name, store in self._stores.items()}
        logits, computed = self._session.run(None, inputs | cached)
        self._stores = {
            name: np.concatenate([store, new[None]], 2)
            for (name, store), new in zip(cached.items(), computed)
        }
        return logits
