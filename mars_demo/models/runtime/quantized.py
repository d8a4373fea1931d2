"""Decoding of single texts with quantized weights on a CPU."""

from __future__ import annotations

import functools
import weakref

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto
from onnx.helper import make_tensor_value_info as value
from torch import Tensor
from transformers import PreTrainedConfig

from mars_demo.core.layout import Layout
from mars_demo.models.architectures import head_width
from mars_demo.models.runtime.decoder import Decoder
from mars_demo.models.runtime.onnx_graph import DecoderGraph, Graph, stores
from mars_demo.models.runtime.quantized_weights import GROUP, Weights, quantize

_FIRST_ROOM = 512  # positions of a new text's KV cache; it doubles when it is full
UNSEEN = np.float32(-1e30)  # attention bias of masked positions
# Attention adds in another order for the last one of an odd number of positions. With an even number, the
# prediction of a position does not depend on the number of positions, so verified drafts equal AR's choice.
_ATTENTION_STEP = 2
_ROWS_TRIED = (1, 2, 4, 8)


class QuantizedModel(Decoder):
    """A quantized model, which replaces a transformers model in decoding."""

    device = torch.device("cpu")

    def __init__(self, config: PreTrainedConfig, weights: Weights):
        self.config = config
        self._embedding = weights.matrix("model.embed_tokens")
        graph = DecoderGraph(config, weights)
        self._session = session_of(graph.model(), graph)
        # Weak keys, because a text must not keep its model in memory, and a binding holds the session.
        self._bindings: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    def new_text(self) -> QuantizedText:
        return QuantizedText(self.config)

    def forward(self, text: QuantizedText, layout: Layout, first: int) -> Tensor:
        """Return the logits; no position may attend to a later one."""
        ids, positions = layout.ids[0].numpy(), layout.positions[0].numpy()
        count, predicted = len(ids), len(ids) - first
        ids = _repeating_last(ids, fewest_rows() - count)
        rows = _repeating_last(np.arange(first, count), fewest_rows() - predicted)
        padding = -len(ids) % _ATTENTION_STEP
        extra = len(ids) + padding - count
        total = text.length + count + extra
        columns = total + (text.length == 0)  # see `DecoderGraph`
        bias = np.full((count + extra, columns), UNSEEN)
        bias[:count, : total - extra][layout.visible[0].numpy()] = 0
        bias[count:] = bias[count - 1]
        binding = self._binding(text, columns)
        for name, array in {
            "hidden": self._embedding.rows(ids)[None],
            "padding": np.array([0, 0, 0, 0, padding, 0]),
            "real": np.array([len(ids)]),
            "positions": _repeating_last(positions, extra)[None],
            "last": np.array([total - 1], np.int32),
            "count": np.array(columns, np.int32),
            "bias": bias[None, None],
            "rows": rows,
        }.items():
            binding.bind_cpu_input(name, array)
        logits = torch.empty(len(rows), self.config.vocab_size, dtype=torch.float32)
        binding.bind_output("logits", "cpu", 0, np.float32, list(logits.shape), logits.data_ptr())
        self._session.run_with_iobinding(binding)
        text.length += count
        return logits[:predicted]

    def keep(self, text: QuantizedText, length: int) -> None:
        text.length = min(text.length, length)

    def _binding(self, text: QuantizedText, length: int):
        if text.grow(length) or text not in self._bindings:
            binding = self._session.io_binding()
            for name, store in text.stores.items():
                binding.bind_ortvalue_input(name, store)
                binding.bind_ortvalue_output(f"{name}.out", store)
            self._bindings[text] = binding
        return self._bindings[text]


class QuantizedText:
    """The keys and values of one text, which a quantized model reads and extends in place."""

    length = 0  # valid positions; later ones are overwritten

    def __init__(self, config: PreTrainedConfig):
        self.stores: dict[str, onnxruntime.OrtValue] = {}
        self._names, self._room = stores(config), 0
        self._heads, self._width = config.num_key_value_heads, head_width(config)

    def grow(self, length: int) -> bool:
        """Make room for `length` positions; return whether the stores were replaced."""
        if length <= self._room:
            return False
        self._room = max(_FIRST_ROOM, 2 * self._room, length)
        for name in self._names:
            store = np.zeros((1, self._heads, self._room, self._width), np.float32)
            if name in self.stores:
                store[:, :, : self.length] = self.stores[name].numpy()[:, :, : self.length]
            self.stores[name] = onnxruntime.OrtValue.ortvalue_from_numpy(store)
        return True


def _repeating_last(values: np.ndarray, times: int) -> np.ndarray:
    """Return values with the last one repeated `times` more times."""
    return values if times < 1 else np.append(values, np.repeat(values[-1:], times))


def session_of(model: onnx.ModelProto, graph: Graph) -> onnxruntime.InferenceSession:
    """Return an ONNX Runtime session for a model, with the tensors of its graph."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    # Threads that spin between forwards would take cores from the reading of logits.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in graph.tensors.values()]
    options.add_external_initializers(list(graph.tensors), values)
    content = model.SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


@functools.cache
def fewest_rows() -> int | None:
    """Return the number of rows of a product from which a row's result does not depend on their number.

    It is measured with the kernels of this CPU. It is 1 also if the results always depend on their number,
    and None if they are wrong.
    """
    random = np.random.default_rng(0)
    weights = torch.from_numpy(random.standard_normal((160, 18 * GROUP), np.float32))
    matrix, graph = quantize(weights), Graph()
    graph.product("x", matrix, "matrix", "y")
    x = random.standard_normal((max(_ROWS_TRIED) + 1, 18 * GROUP), np.float32)
    ends = [
        [value(name, TensorProto.FLOAT, ["rows", width])] for name, width in (("x", x.shape[1]), ("y", 160))
    ]
    try:
        session = session_of(graph.proto(*ends), graph)
        results = [session.run(None, {"x": x[:rows]})[0] for rows in range(1, len(x) + 1)]
    except Exception:  # an old CPU, or a build of the library without these kernels
        return None
    exact = x @ matrix.rows(np.arange(160)).T
    if max(np.abs(part - exact[: len(part)]).max() for part in results) >= 0.05 * np.abs(exact).max():
        return None
    most = results[-1]
    fewest = (n for n in _ROWS_TRIED if all((part[:n] == most[:n]).all() for part in results[n - 1 :]))
    return next(fewest, 1)
