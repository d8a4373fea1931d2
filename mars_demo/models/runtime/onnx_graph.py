"""A decoder as a graph of ONNX operators, with float32 or quantized weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from onnx.helper import make_tensor_value_info as value
from transformers import PreTrainedConfig

from mars_demo.models.architectures import LLAMA_LIKE, empty, head_width
from mars_demo.models.runtime.decoder import sliding_window
from mars_demo.models.runtime.weights import Quantized, Weights

FUSED = "com.microsoft"  # the domain of ONNX Runtime's own operators
ROPES = ("default", "linear", "llama3", "yarn")  # rotary types with fixed frequencies
FLOATS, LONGS = TensorProto.FLOAT, TensorProto.INT64


def unsupported(config: PreTrainedConfig) -> str | None:
    """Return the reason why a model cannot become a graph, as a sentence; None if it can."""
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if config.model_type not in LLAMA_LIKE:
        return f"its model type is {config.model_type}, not one of {', '.join(LLAMA_LIKE)}."
    if sliding_window(config):
        return "its layers have a sliding attention window."
    if config.hidden_act != "silu":
        return f"its layers use {config.hidden_act}, not silu."
    if rope not in ROPES:
        return f"its rotary embeddings are of type {rope}, which depends on the length of the text."
    if head_width(config) % 16:
        return f"its heads are {head_width(config)} wide, which is not a multiple of 16."
    return None


class Graph:
    """The nodes of a graph and their constant tensors.

    signed: whether the weights of integer products are signed bytes; some CPUs' kernels are exact only for
        unsigned ones.
    """

    def __init__(self, signed: bool) -> None:
        self.signed = signed
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: dict[str, np.ndarray] = {}
        self.settings: dict[str, TensorProto] = {}  # small tensors that determine shapes

    def add(self, kind: str, inputs: list[str], *outputs: str, domain: str = "", **attributes) -> str:
        """Add a node; return the name of its first output."""
        self.nodes.append(helper.make_node(kind, inputs, list(outputs), domain=domain, **attributes))
        return outputs[0]

    def constant(self, name: str, value: np.ndarray) -> str:
        """Add a constant tensor; return its name."""
        self.tensors[name] = np.ascontiguousarray(value)
        return name

    def setting(self, name: str, *numbers: int) -> str:
        """Add a small integer tensor that determines shapes, once for all layers; return its name."""
        self.settings[name] = helper.make_tensor(name, TensorProto.INT64, [len(numbers)], numbers)
        return name

    def proto(
        self,
        inputs: list[onnx.ValueInfoProto],
        outputs: list[onnx.ValueInfoProto],
        store: Callable[[TensorProto, np.ndarray], None],
    ) -> onnx.ModelProto:
        """Return the graph in ONNX.

        store: puts the values of a tensor, which has its name, type and shape, into its final place.
        """
        tensors = [*self.settings.values()]
        for name, array in self.tensors.items():
            tensor = TensorProto(name=name, dims=array.shape)
            tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
            store(tensor, array)
            tensors.append(tensor)
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, tensors)
        versions = [helper.make_opsetid("", 21), helper.make_opsetid(FUSED, 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=10)

    # ---------------------------------------------------------------------------------------- products

    def product(
        self, x: str, matrix: np.ndarray | Quantized, weight: str, name: str, fine: bool = False
    ) -> str:
        """Add x · matrix; return its name.

        Inputs of a quantized matrix are rounded to one byte with a scale per row, so a row's result does
        not depend on the other rows: sums of integers are exact.

        weight: the name of the matrix.
        fine: round the inputs to two bytes, as twice as many rows.
        """
        if not isinstance(matrix, Quantized):
            return self.add("MatMul", [x, self.constant(weight, matrix)], name)
        self.constant("step", np.float32(1 / 127))
        self.constant("offset", np.uint8(128))
        self.add("Abs", [x], f"{x}.abs")
        self.add("ReduceMax", [f"{x}.abs", self.setting("last_axis", -1)], f"{x}.scale", keepdims=1)
        # A row of zeros becomes NaN and any integers, which a scale of 0 makes zeros again.
        self.add("Div", [x, f"{x}.scale"], f"{x}.share")
        self.add("QuantizeLinear", [f"{x}.share", "step", "offset"], f"{x}.bytes")
        rows, scale = self._two_bytes(x) if fine else (f"{x}.bytes", f"{x}.scale")
        values = matrix.q if self.signed else matrix.q.view(np.uint8) ^ 0x80
        q = self.constant(f"{weight}.q", values)
        scales = self.constant(f"{weight}.scales", matrix.scales / np.float32(127))
        operands = [rows, q, scale, scales, "offset", *([] if self.signed else ["offset"])]
        if not fine:
            return self.add("MatMulIntegerToFloat", operands, name, domain=FUSED)
        both = self.add("MatMulIntegerToFloat", operands, f"{name}.both", domain=FUSED)
        return self.add("ReduceSum", [both, self.setting("first_axis", 0)], name, keepdims=1)

    def _two_bytes(self, x: str) -> tuple[str, str]:
        """Add the rounding errors of x [1, n, width] in bytes, as more rows; return all rows and scales."""
        self.constant("fine_step", np.float32(1 / 127 / 254))
        self.constant("both_scales", np.array([1, 1 / 254], np.float32)[:, None, None])
        self.add("DequantizeLinear", [f"{x}.bytes", "step", "offset"], f"{x}.coarse")
        self.add("Sub", [f"{x}.share", f"{x}.coarse"], f"{x}.error")
        self.add("QuantizeLinear", [f"{x}.error", "fine_step", "offset"], f"{x}.low")
        self.add("Concat", [f"{x}.bytes", f"{x}.low"], f"{x}.rows", axis=0)
        self.add("Mul", [f"{x}.scale", "both_scales"], f"{x}.scales")
        return f"{x}.rows", f"{x}.scales"


def put_outside(tensor: TensorProto, **place: object) -> None:
    """Mark a tensor's values as outside the model. place: among others, the `location`."""
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in place.items():
        tensor.external_data.add(key=key, value=str(text))


class Attention(Protocol):
    """The attention of a graph, with the inputs and outputs that it needs."""

    def inputs(self) -> list[onnx.ValueInfoProto]: ...

    def outputs(self) -> list[onnx.ValueInfoProto]: ...

    def begin(self, graph: DecoderGraph) -> None:
        """Add what all layers share."""

    def add(self, graph: DecoderGraph, i: int, name: str, joined: str) -> str:
        """Add the attention of layer i to its queries, keys and values; return its output's name."""


class DecoderGraph(Graph):
    """The graph of a decoder.

    It computes the same as transformers, except that the inputs of quantized products are rounded. Its
    inputs are `ids` [1, n], `positions`, `rows` [r], the positions whose logits are needed, and those of
    its attention. Its first output is `logits` [r, vocabulary].
    """

    def __init__(self, config: PreTrainedConfig, weights: Weights, attention: Attention, signed: bool):
        super().__init__(signed)
        self.config, self.weights, self.attention = config, weights, attention

    def model(self, store: Callable[[TensorProto, np.ndarray], None]) -> onnx.ModelProto:
        """Return the ONNX model; its weights are read now. store: as in `Graph.proto`."""
        self.setting("zero", 0)
        self.attention.begin(self)
        x, residual = self._embedded(), None
        for i in range(self.config.num_hidden_layers):
            layer = f"model.layers.{i}"
            normed, residual = self._normed(x, residual, f"{layer}.input_layernorm", f"{layer}.in")
            x = self._attended(i, f"{layer}.self_attn", normed)
            normed, residual = self._normed(
                x, residual, f"{layer}.post_attention_layernorm", f"{layer}.middle"
            )
            x = self._gated(f"{layer}.mlp", normed)
        last, _ = self._normed(x, residual, "model.norm", "last_hidden")
        flat = self.add("Squeeze", [last, "zero"], "flat")
        selected = self.add("Gather", [flat, "rows"], "selected", axis=0)
        self._logits(selected)
        inputs = [value("ids", LONGS, [1, "n"]), value("rows", LONGS, ["r"]), *self.attention.inputs()]
        logits = value("logits", FLOATS, ["r", self.config.vocab_size])
        return self.proto(inputs, [logits, *self.attention.outputs()], store)

    def _embedded(self) -> str:
        """Add the embedding of `ids`; return its name."""
        table = self.weights.embedding()
        if not isinstance(table, Quantized):
            return self.add("Gather", [self.constant("embedding", table), "ids"], "hidden")
        self.add("Gather", [self.constant("embedding.q", table.q), "ids"], "embedded.q")
        scales = self.constant("embedding.scales", table.scales[:, None])
        self.add("Gather", [scales, "ids"], "embedded.scale")
        self.add("Cast", ["embedded.q"], "embedded", to=FLOATS)
        return self.add("Mul", ["embedded", "embedded.scale"], "hidden")

    def _logits(self, x: str) -> None:
        """Add the logits of the selected positions."""
        head = self.weights.head()
        if isinstance(head, Quantized):
            self.product(x, head, "head", "logits")
        else:  # a tied head must not be stored twice
            table = "embedding" if self.weights.tied else self.constant("head", head)
            self.add("Gemm", [x, table], "logits", transB=1)

    def norm(self, x: str, norm: str, name: str) -> str:
        """Add the RMS norm of x; return its name."""
        inputs = [x, self.constant(f"{name}.gain", self.weights.gain(norm))]
        epsilon = self.config.rms_norm_eps
        return self.add("SimplifiedLayerNormalization", inputs, name, epsilon=epsilon, axis=-1)

    def _normed(self, x: str, residual: str | None, norm: str, name: str) -> tuple[str, str]:
        """Add x + residual, if any, and its RMS norm; return the names of the norm and of the sum."""
        if residual is None:
            return self.norm(x, norm, name), x
        inputs = [x, residual, self.constant(f"{name}.gain", self.weights.gain(norm))]
        outputs, settings = [name, "", "", f"{name}.sum"], {"epsilon": self.config.rms_norm_eps}
        self.add("SkipSimplifiedLayerNormalization", inputs, *outputs, **settings, domain=FUSED)
        return name, f"{name}.sum"

    def _linear(self, x: str, name: str, *layers: str, fine: bool = False) -> str:
        """Add the linear layers of x, concatenated as one product; return its name."""
        bias, matrix = self.weights.bias(*layers), self.weights.matrix(*layers)
        if bias is None:
            return self.product(x, matrix, layers[0], name, fine)
        product = self.product(x, matrix, layers[0], f"{name}.product", fine)
        return self.add("Add", [product, self.constant(f"{name}.bias", bias)], name)

    def _attended(self, i: int, name: str, x: str) -> str:
        """Add the attention of layer i, which extends the layer's KV cache; return its output's name."""
        joined = self._linear(x, f"{name}.computed", *(f"{name}.{part}_proj" for part in "qkv"))
        return self._linear(self.attention.add(self, i, name, joined), f"{name}.out", f"{name}.o_proj")

    def _gated(self, name: str, x: str) -> str:
        """Add down(silu(gate(x)) · up(x)), with gate and up as one product; return its name."""
        joined = self._linear(x, f"{name}.gate_up", f"{name}.gate_proj", f"{name}.up_proj")
        self.add("Split", [joined], f"{name}.gate", f"{name}.up", axis=-1, num_outputs=2)
        # x · sigmoid(x)
        gate = self.add("QuickGelu", [f"{name}.gate"], f"{name}.silu", alpha=1.0, domain=FUSED)
        both = self.add("Mul", [gate, f"{name}.up"], f"{name}.gated")
        # These inputs have a few far larger channels, which no rotation of the residual stream removes.
        return self._linear(both, f"{name}.out", f"{name}.down_proj", fine=True)


def rotary_tables(config: PreTrainedConfig, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines and sines [length, width / 2] of the rotary embedding."""
    kind = type(empty(config).model.rotary_emb)
    rotary = kind(config)
    angles = torch.arange(length)[:, None] * rotary.inv_freq.float()
    scaling = rotary.attention_scaling
    return (angles.cos() * scaling).numpy(), (angles.sin() * scaling).numpy()
