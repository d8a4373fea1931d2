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
from mars_demo.models.runtime.attention import FusedAttention, stores
from mars_demo.models.runtime.decoder import Decoder
from mars_demo.models.runtime.onnx_graph import DecoderGraph, Graph, put_outside
from mars_demo.models.runtime.weights import Quantized, Weights

_FIRST_ROOM = 512  # positions of a new text's KV cache; it doubles when it is full
UNSEEN = np.float32(-1e30)  # attention bias of masked positions
# Attention adds in another order for the last one of an odd number of positions. With an even number, the
# prediction of a position does not depend on the number of positions, so verified drafts equal AR's choice.
_ATTENTION_STEP = 2
SIGNED, UNSIGNED = "signed", "unsigned"  # kinds of integer weights
_ROWS, _WIDTH, _OUTPUTS = 17, 576, 160  # of products that test the kernels


class QuantizedModel(Decoder):
    """A quantized model, which replaces a transformers model in decoding."""

    device = torch.device("cpu")

    def __init__(self, config: PreTrainedConfig, weights: Weights):
        self.config = config
        graph = DecoderGraph(config, weights, FusedAttention(config), kernel() == SIGNED)
        self._session = session_of(graph.model(_give), graph)
        # Weak keys, because a text must not keep its model in memory, and a binding holds the session.
        self._bindings: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    def new_text(self) -> QuantizedText:
        return QuantizedText(self.config)

    def forward(self, text: QuantizedText, layout: Layout, first: int) -> Tensor:
        """Return the logits; no position may attend to a later one."""
        ids, positions = layout.ids[0].numpy(), layout.positions[0].numpy()
        count = len(ids)
        padding = -count % _ATTENTION_STEP
        total = text.length + count + padding
        columns = total + (text.length == 0)  # see `FusedAttention`
        bias = np.full((count + padding, columns), UNSEEN)
        bias[:count, : total - padding][layout.visible[0].numpy()] = 0
        bias[count:] = bias[count - 1]
        binding = self._binding(text, columns)
        for name, array in {
            "ids": ids[None],
            "padding": np.array([0, 0, 0, 0, padding, 0]),
            "real": np.array([count]),
            "positions": np.append(positions, positions[count - padding :])[None],
            "last": np.array([total - 1], np.int32),
            "count": np.array(columns, np.int32),
            "bias": bias[None, None],
            "rows": np.arange(first, count),
        }.items():
            binding.bind_cpu_input(name, array)
        logits = torch.empty(count - first, self.config.vocab_size, dtype=torch.float32)
        binding.bind_output("logits", "cpu", 0, np.float32, list(logits.shape), logits.data_ptr())
        self._session.run_with_iobinding(binding)
        text.length += count
        return logits

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


def _give(tensor: TensorProto, array: np.ndarray) -> None:
    put_outside(tensor, location="given to the session")


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
def kernel() -> str | None:
    """Return the kind of weights for which this CPU's integer products are exact, the faster one first.

    Without VNNI, sums of two products of signed weights may overflow. None if all products are wrong.
    """
    return next((kind for kind in (SIGNED, UNSIGNED) if _is_exact(kind)), None)


def _is_exact(kind: str) -> bool:
    random = np.random.default_rng(0)
    x = random.choice([-1.0, 1.0], (_ROWS, _WIDTH)).astype(np.float32)  # extreme bytes, whose sums overflow
    x[1::2] *= random.random((_ROWS // 2, _WIDTH), np.float32)
    x[:, 0] = 1
    q, graph = random.choice(np.array([-127, 127], np.int8), (_WIDTH, _OUTPUTS)), Graph(kind == SIGNED)
    matrix = Quantized(q, np.ones(_OUTPUTS, np.float32))
    graph.product("x", matrix, "matrix", "y")
    ends = [value("x", TensorProto.FLOAT, ["n", _WIDTH])], [value("y", TensorProto.FLOAT, ["n", _OUTPUTS])]
    try:
        session = session_of(graph.proto(*ends, _give), graph)
        results = [session.run(None, {"x": x[:rows]})[0] for rows in range(1, _ROWS + 1)]
    except Exception:  # an old CPU, or a build of the library without these kernels
        return False
    expected = np.rint(x * 127).astype(np.int64) @ q.astype(np.int64) / 127
    return all(np.allclose(y, expected[: len(y)], rtol=1e-5, atol=1e-2) for y in results)
