"""A decoder as a graph of ONNX Runtime's fused operators, with quantized weights."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from onnx.helper import make_tensor_value_info as value
from transformers import PreTrainedConfig

from mars_demo.models.architectures import QUANTIZED, empty
from mars_demo.models.runtime.quantized_weights import GROUP, Quantized, Weights

FUSED = "com.microsoft"  # the domain of ONNX Runtime's own operators
ROPES = ("default", "linear", "llama3", "yarn")  # rotary types with fixed frequencies
INTEGER_PRODUCTS = 4  # accuracy_level: int8 activations, with a scale for each group of 32


def unsupported(config: PreTrainedConfig) -> str | None:
    """Return the reason why a model cannot become a graph, as a sentence; None if it can."""
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if config.model_type not in QUANTIZED:
        return f"its model type is {config.model_type}, not one of {', '.join(QUANTIZED)}."
    if config.hidden_act != "silu":
        return f"its layers use {config.hidden_act}, not silu."
    if rope not in ROPES:
        return f"its rotary embeddings are of type {rope}, which depends on the length of the text."
    if head_width(config) % 16:
        return f"its heads are {head_width(config)} wide, which is not a multiple of 16."
    if config.hidden_size % GROUP or config.intermediate_size % GROUP or _heads_width(config) % GROUP:
        return f"its widths are not multiples of {GROUP}."
    return None


def head_width(config: PreTrainedConfig) -> int:
    """Return the width of an attention head."""
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def _heads_width(config: PreTrainedConfig) -> int:
    return config.num_attention_heads * head_width(config)


@dataclass
class Graph:
    """The nodes of a graph and their constant tensors."""

    nodes: list = field(default_factory=list)
    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    settings: list[TensorProto] = field(default_factory=list)  # small tensors that determine shapes

    def add(self, kind: str, inputs: list[str], *outputs: str, domain: str = FUSED, **attributes) -> str:
        """Add a node; return the name of its first output."""
        self.nodes.append(helper.make_node(kind, inputs, list(outputs), domain=domain, **attributes))
        return outputs[0]

    def constant(self, name: str, value: np.ndarray) -> str:
        """Add a constant tensor; return its name."""
        self.tensors[name] = np.ascontiguousarray(value)
        return name

    def setting(self, name: str, *numbers: int) -> str:
        """Add a small integer tensor that determines shapes; return its name."""
        self.settings.append(helper.make_tensor(name, TensorProto.INT64, [len(numbers)], numbers))
        return name

    def norm(self, x: str, weight: np.ndarray, name: str, epsilon: float) -> str:
        """Add the RMS norm of x; return its name."""
        inputs = [x, self.constant(f"{name}.weight", weight)]
        return self.add("SimplifiedLayerNormalization", inputs, name, domain="", epsilon=epsilon, axis=-1)

    def add_and_norm(
        self, x: str, residual: str, weight: np.ndarray, name: str, epsilon: float
    ) -> tuple[str, str]:
        """Add x + residual and its RMS norm; return the names of the norm and of the sum."""
        inputs = [x, residual, self.constant(f"{name}.weight", weight)]
        total = f"{name}.sum"
        self.add("SkipSimplifiedLayerNormalization", inputs, name, "", "", total, epsilon=epsilon)
        return name, total

    def product(self, x: str, matrix: Quantized, name: str, bias: np.ndarray | None = None) -> str:
        """Add x · matrixᵀ + bias; return its name."""
        inputs = [x, self.constant(f"{name}.q", matrix.q)]
        inputs.append(self.constant(f"{name}.scales", matrix.scales.reshape(-1)))
        if bias is not None:
            inputs += ["", "", self.constant(f"{name}.bias", bias)]
        out, width = matrix.shape
        return self.add(
            "MatMulNBits",
            inputs,
            name,
            N=out,
            K=width,
            bits=matrix.bits,
            block_size=GROUP,
            accuracy_level=INTEGER_PRODUCTS,
        )

    def proto(
        self, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]
    ) -> onnx.ModelProto:
        """Return the graph in ONNX, with names and shapes of the tensors; a session gets their values."""
        tensors = [*self.settings, *(_declared(name, array) for name, array in self.tensors.items())]
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, tensors)
        versions = [helper.make_opsetid("", 21), helper.make_opsetid(FUSED, 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=10)


def decoder(graph: Graph, config: PreTrainedConfig) -> onnx.ModelProto:
    """Return the ONNX model of a graph from `build`, with its inputs and outputs.

    The inputs are `hidden` [1, n, width], the embedded tokens; `rows` [r], the positions whose logits are
    needed; and for each layer `key.i` and `value.i` [1, heads, room, width], which come out as `key.i.out`
    and `value.i.out`. Attention alone has m >= n positions, with the inputs `padding` [0, 0, 0, 0, m - n,
    0], `real` [n], `positions` [1, m], `last` [1] (the index of the last cached position after the
    forward), `count` [] (the number of cached positions) and `bias` [1, 1, m, count], added to the scores.
    The output is `logits` [r, vocabulary].
    """
    cache = [1, config.num_key_value_heads, "room", head_width(config)]
    stores = [f"{kind}.{i}" for i in range(config.num_hidden_layers) for kind in ("key", "value")]
    floats, longs, ints = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32
    inputs = [
        value("hidden", floats, [1, "n", config.hidden_size]),
        value("padding", longs, [6]),
        value("real", longs, [1]),
        value("positions", longs, [1, "m"]),
        value("last", ints, [1]),
        value("count", ints, []),
        value("bias", floats, [1, 1, "m", "count"]),
        value("rows", longs, ["r"]),
        *(value(name, floats, cache) for name in stores),
    ]
    outputs = [
        value("logits", floats, ["r", config.vocab_size]),
        *(value(f"{name}.out", floats, cache) for name in stores),
    ]
    return graph.proto(inputs, outputs)


def build(config: PreTrainedConfig, weights: Weights) -> Graph:
    """Return the graph of a model.

    It computes the same as transformers, except that weights and their inputs are quantized.
    """
    graph, epsilon = Graph(), config.rms_norm_eps
    cos, sin = _rotation(config)
    graph.constant("cos", cos)
    graph.constant("sin", sin)
    graph.setting("zero", 0)
    graph.setting("one", 1)
    x, residual = "hidden", None
    for i in range(config.num_hidden_layers):
        layer = f"model.layers.{i}"
        weight = weights.vector(f"{layer}.input_layernorm.weight")
        if residual is None:
            attended, residual = graph.norm(x, weight, f"{layer}.in", epsilon), x
        else:
            attended, residual = graph.add_and_norm(x, residual, weight, f"{layer}.in", epsilon)
        x = _attention(graph, config, weights, i, attended)
        weight = weights.vector(f"{layer}.post_attention_layernorm.weight")
        normed, residual = graph.add_and_norm(x, residual, weight, f"{layer}.middle", epsilon)
        x = _gated(graph, weights, f"{layer}.mlp", normed)
    last, _ = graph.add_and_norm(x, residual, weights.vector("model.norm.weight"), "last_hidden", epsilon)
    flat = graph.add("Squeeze", [last, "zero"], "flat", domain="")
    selected = graph.add("Gather", [flat, "rows"], "selected", domain="", axis=0)
    head = "model.embed_tokens" if config.tie_word_embeddings else "lm_head"
    graph.product(selected, weights.matrix(head), "logits")
    return graph


def _attention(graph: Graph, config: PreTrainedConfig, weights: Weights, i: int, x: str) -> str:
    """Add the attention of layer i, which extends the layer's KV cache; return its output's name."""
    name = f"model.layers.{i}.self_attn"
    parts = [f"{name}.{part}_proj" for part in "qkv"]
    bias = weights.vector(*(f"{part}.bias" for part in parts))
    computed = graph.product(x, weights.matrix(*parts), f"{name}.computed", bias)
    joined = graph.add("Pad", [computed, "padding"], f"{name}.qkv", domain="")
    queries = weights.vector(f"{name}.q_norm.weight")
    inputs = [joined, "", ""] if queries is None else _normed_heads(graph, config, weights, name, joined)
    out = graph.add(
        "GroupQueryAttention",
        [*inputs, f"key.{i}", f"value.{i}", "last", "count", "cos", "sin", "positions", "bias"],
        f"{name}.attended",
        f"key.{i}.out",
        f"value.{i}.out",
        num_heads=config.num_attention_heads,
        kv_num_heads=config.num_key_value_heads,
        scale=head_width(config) ** -0.5,
        do_rotary=1,
    )
    real = graph.add("Slice", [out, "zero", "real", "one"], f"{name}.real", domain="")
    output = f"{name}.o_proj"
    return graph.product(real, weights.matrix(output), f"{name}.out", weights.vector(f"{output}.bias"))


def _normed_heads(
    graph: Graph, config: PreTrainedConfig, weights: Weights, name: str, joined: str
) -> list[str]:
    """Add the norm of queries and keys by head (Qwen3); return the names of queries, keys and values."""
    width, heads, shared = head_width(config), config.num_attention_heads, config.num_key_value_heads
    sizes = graph.setting(f"{name}.sizes", heads * width, shared * width, shared * width)
    parts = [f"{name}.{part}" for part in "qkv"]
    graph.add("Split", [joined, sizes], *parts, domain="", axis=-1)
    by_head = graph.setting(f"{name}.by_head", 0, 0, -1, width)
    flat = graph.setting(f"{name}.flat", 0, 0, -1)
    for kind in "qk":
        split = graph.add("Reshape", [f"{name}.{kind}", by_head], f"{name}.{kind}.heads", domain="")
        weight = weights.vector(f"{name}.{kind}_norm.weight")
        normed = graph.norm(split, weight, f"{name}.{kind}.normed", config.rms_norm_eps)
        graph.add("Reshape", [normed, flat], f"{name}.{kind}.ready", domain="")
    return [f"{name}.q.ready", f"{name}.k.ready", f"{name}.v"]


def _gated(graph: Graph, weights: Weights, name: str, x: str) -> str:
    """Add down(silu(gate(x)) · up(x)), with gate and up as one product; return its name."""
    parts = [f"{name}.gate_proj", f"{name}.up_proj"]
    bias = weights.vector(*(f"{part}.bias" for part in parts))
    joined = graph.product(x, weights.matrix(*parts), f"{name}.gate_up", bias)
    graph.add("Split", [joined], f"{name}.gate", f"{name}.up", domain="", axis=-1, num_outputs=2)
    gate = graph.add("QuickGelu", [f"{name}.gate"], f"{name}.silu", alpha=1.0)  # x · sigmoid(x)
    both = graph.add("Mul", [gate, f"{name}.up"], f"{name}.gated", domain="")
    down = f"{name}.down_proj"
    return graph.product(both, weights.matrix(down), f"{name}.out", weights.vector(f"{down}.bias"))


def _rotation(config: PreTrainedConfig) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines and sines [context, width / 2] of the rotary embedding."""
    kind = type(empty(config).model.rotary_emb)
    rotary = kind(config)
    angles = torch.arange(config.max_position_embeddings)[:, None] * rotary.inv_freq.float()
    scaling = rotary.attention_scaling
    return (angles.cos() * scaling).numpy(), (angles.sin() * scaling).numpy()


def _declared(name: str, array: np.ndarray) -> onnx.TensorProto:
    """Return a tensor's name, type and shape without its values."""
    tensor = TensorProto(name=name, dims=array.shape)
    tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="given to the session")
    return tensor
