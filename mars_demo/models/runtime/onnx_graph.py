"""A decoder as a graph of ONNX Runtime's fused operators, with float32 or quantized weights."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_tensor_value_info as value
from transformers import PreTrainedConfig

from mars_demo.core.modes import GUESSED_WINDOW, trained_window
from mars_demo.models.architectures import LLAMA_LIKE, empty, head_width
from mars_demo.models.runtime.decoder import sliding_window
from mars_demo.models.runtime.quantized_weights import GROUP, Matrix, Quantized, Weights

FUSED = "com.microsoft"  # the domain of ONNX Runtime's own operators
ROPES = ("default", "linear", "llama3", "yarn")  # rotary types with fixed frequencies
INTEGER_PRODUCTS = 4  # accuracy_level: int8 activations, with a scale for each group of 32


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
    if config.hidden_size % GROUP or config.intermediate_size % GROUP or _heads_width(config) % GROUP:
        return f"its widths are not multiples of {GROUP}."
    return None


def _heads_width(config: PreTrainedConfig) -> int:
    return config.num_attention_heads * head_width(config)


@dataclass
class Graph:
    """The nodes of a graph and their constant tensors.

    self_contained: whether other programs run it: it contains the values of its tensors, embeds token ids,
        pads nothing, and computes in float32, which is faster in a browser than quantized products.
    """

    self_contained: bool = False
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
        """Add a small integer tensor that determines shapes, once for all layers; return its name."""
        if all(one.name != name for one in self.settings):
            self.settings.append(helper.make_tensor(name, TensorProto.INT64, [len(numbers)], numbers))
        return name

    def turned(self, x: str, sizes: str, order: list[int], name: str) -> str:
        """Add x in the sizes of a setting, with its dimensions in another order; return its name."""
        split = self.add("Reshape", [x, sizes], f"{name}.split", domain="")
        return self.add("Transpose", [split], name, domain="", perm=order)

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

    def product(
        self, x: str, matrix: Matrix, weight: str, name: str, bias: np.ndarray | None = None
    ) -> str:
        """Add x · matrixᵀ + bias; return its name. `weight` is the name of the matrix."""
        added = [] if bias is None else [self.constant(f"{name}.bias", bias)]
        if self.self_contained:
            product = f"{name}.product" if added else name
            self.add("MatMul", [x, self.dense(matrix, weight)], product, domain="")
            return self.add("Add", [product, *added], name, domain="") if added else name
        q, scales = self.constant(f"{weight}.q", matrix.q), self.constant(f"{weight}.scales", matrix.scales)
        out, width = matrix.shape
        return self.add(
            "MatMulNBits",
            [x, q, scales, *(["", "", *added] if added else [])],
            name,
            N=out,
            K=width,
            bits=8,
            block_size=GROUP,
            accuracy_level=INTEGER_PRODUCTS,
        )

    def dense(self, matrix: Matrix, weight: str) -> str:
        """Add a matrix [in, out], dequantized from 8 bits if necessary; return its name.

        A session dequantizes it once if `session.disable_quant_qdq` is set, otherwise in every forward.
        """
        if not isinstance(matrix, Quantized):
            return self.constant(weight, matrix.T)
        if f"{weight}.q" not in self.tensors:
            q = self.constant(f"{weight}.q", matrix.signed().T)
            scales = self.constant(f"{weight}.scales", matrix.scales.T)
            self.add("DequantizeLinear", [q, scales], weight, domain="", axis=0, block_size=GROUP)
        return weight

    def proto(
        self, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]
    ) -> onnx.ModelProto:
        """Return the graph in ONNX; without values of the tensors unless it is self-contained."""
        as_tensor = numpy_helper.from_array if self.self_contained else _declared
        tensors = [*self.settings, *(as_tensor(array, name) for name, array in self.tensors.items())]
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
    The output is `logits` [r, vocabulary]. If `count` is m, attention counts on from the first of
    `positions`; it reads all of them if `count` is larger and the bias has a column more.

    A self-contained graph has `ids` [1, n], `positions` [1, n], `bias` [n, past + n], `rows` [r], and those
    `key.i` and `value.i` [1, heads, past, width] that are cached. Those of the n positions come out as
    `computed` [2 · layers, heads, n, width], a key and a value for each layer.
    """
    floats, longs, ints = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32
    heads, width = config.num_key_value_heads, head_width(config)
    past = "past" if graph.self_contained else "room"
    cached = [value(name, floats, [1, heads, past, width]) for name in stores(config)]
    if graph.self_contained:
        inputs = [
            value("ids", longs, [1, "n"]),
            value("positions", longs, [1, "n"]),
            value("bias", floats, ["n", "total"]),
        ]
        extended = [value("computed", floats, [len(cached), heads, "n", width])]
    else:
        inputs = [
            value("hidden", floats, [1, "n", config.hidden_size]),
            value("padding", longs, [6]),
            value("real", longs, [1]),
            value("positions", longs, [1, "m"]),
            value("last", ints, [1]),
            value("count", ints, []),
            value("bias", floats, [1, 1, "m", "count"]),
        ]
        extended = [value(f"{name}.out", floats, [1, heads, past, width]) for name in stores(config)]
    logits = value("logits", floats, ["r", config.vocab_size])
    return graph.proto([*inputs, value("rows", longs, ["r"]), *cached], [logits, *extended])


def stores(config: PreTrainedConfig) -> list[str]:
    """Return the names of the KV cache."""
    return [f"{kind}.{i}" for i in range(config.num_hidden_layers) for kind in ("key", "value")]


def build(config: PreTrainedConfig, weights: Weights, self_contained: bool = False) -> Graph:
    """Return the graph of a model.

    It computes the same as transformers, except that quantized weights have quantized inputs, unless it is
    self-contained.
    """
    graph, epsilon = Graph(self_contained), config.rms_norm_eps
    # Attention requires a table of all cached positions, also of masks and drafts beyond the context.
    largest = trained_window(getattr(config, "block_size", None)) if self_contained else GUESSED_WINDOW
    cos, sin = _rotation(config, config.max_position_embeddings + largest**2)
    graph.constant("cos", cos)
    graph.constant("sin", sin)
    graph.setting("zero", 0)
    x, residual, embedding = "hidden", None, "model.embed_tokens"
    if self_contained:
        scale = np.float32(head_width(config) ** -0.5)  # of the scores, by the rotation of the queries
        graph.constant("cos.scaled", cos * scale)
        graph.constant("sin.scaled", sin * scale)
        table = graph.dense(weights.matrix(embedding), embedding)
        columns = graph.add("Gather", [table, "ids"], "embedded", domain="", axis=1)
        graph.add("Transpose", [columns], x, domain="", perm=[1, 2, 0])
        group = config.num_attention_heads // config.num_key_value_heads
        graph.add("Tile", ["bias", graph.setting("group", group, 1)], "bias.rows", domain="")
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
    _linear(graph, weights, selected, "logits", embedding if config.tie_word_embeddings else "lm_head")
    if self_contained:
        new = [f"{name}.new" for name in stores(config)]
        graph.add("Concat", new, "computed", domain="", axis=0)
    return graph


def _linear(graph: Graph, weights: Weights, x: str, name: str, *layers: str) -> str:
    """Add the linear layers of x, concatenated as one product; return its name."""
    bias = weights.vector(*(f"{layer}.bias" for layer in layers))
    return graph.product(x, weights.matrix(*layers), layers[0], name, bias)


def _attention(graph: Graph, config: PreTrainedConfig, weights: Weights, i: int, x: str) -> str:
    """Add the attention of layer i, which extends the layer's KV cache; return its output's name."""
    name = f"model.layers.{i}.self_attn"
    joined = _linear(graph, weights, x, f"{name}.computed", *(f"{name}.{part}_proj" for part in "qkv"))
    attention = _plain_attention if graph.self_contained else _fused_attention
    return _linear(
        graph, weights, attention(graph, config, weights, i, joined), f"{name}.out", f"{name}.o_proj"
    )


def _fused_attention(graph: Graph, config: PreTrainedConfig, weights: Weights, i: int, joined: str) -> str:
    """Add attention as one operator on padded positions; return its output's name."""
    name = f"model.layers.{i}.self_attn"
    padded = graph.add("Pad", [joined, "padding"], f"{name}.qkv", domain="")
    has_norms = weights.vector(f"{name}.q_norm.weight") is not None
    inputs = _normed_heads(graph, config, weights, name, padded) if has_norms else [padded, "", ""]
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
    axis = graph.setting("axis", 1)
    return graph.add("Slice", [out, "zero", "real", axis], f"{name}.real", domain="")


def _plain_attention(graph: Graph, config: PreTrainedConfig, weights: Weights, i: int, joined: str) -> str:
    """Add attention as products; return its output's name.

    In a browser, the fused operator takes several times as long, and longer with every cached position.
    """
    name, width, shared = f"model.layers.{i}.self_attn", head_width(config), config.num_key_value_heads
    group = config.num_attention_heads // shared
    has_norms = weights.vector(f"{name}.q_norm.weight") is not None
    heads = _normed_heads if has_norms else _split_heads
    queries, keys, new_values = heads(graph, config, weights, name, joined)
    queries = graph.add(
        "RotaryEmbedding", [queries, "positions", "cos.scaled", "sin.scaled"], f"{name}.q.rotated"
    )
    keys = graph.add("RotaryEmbedding", [keys, "positions", "cos", "sin"], f"{name}.k.rotated")
    by_head = graph.setting("by_head", 0, 0, shared, width)
    for kind, x in (("key", keys), ("value", new_values)):
        new = graph.turned(x, by_head, [0, 2, 1, 3], f"{kind}.{i}.new")
        graph.add("Concat", [f"{kind}.{i}", new], f"{name}.{kind}.all", domain="", axis=2)
    # The queries of all heads that share keys are the rows of one product.
    by_group = graph.setting("by_group", 0, 0, shared, group, width)
    turned = graph.turned(queries, by_group, [0, 2, 3, 1, 4], f"{name}.queries")
    rows = graph.add(
        "Reshape", [turned, graph.setting("in_rows", 0, 0, -1, width)], f"{name}.rows", domain=""
    )
    columns = graph.add("Transpose", [f"{name}.key.all"], f"{name}.columns", domain="", perm=[0, 1, 3, 2])
    scores = graph.add("MatMul", [rows, columns], f"{name}.scores", domain="")
    biased = graph.add("Add", [scores, "bias.rows"], f"{name}.biased", domain="")
    shares = graph.add("Softmax", [biased], f"{name}.shares", domain="", axis=-1)
    seen = graph.add("MatMul", [shares, f"{name}.value.all"], f"{name}.seen", domain="")
    of_rows = graph.setting("of_rows", 0, 0, group, -1, width)
    turned = graph.turned(seen, of_rows, [0, 3, 1, 2, 4], f"{name}.by_position")
    return graph.add("Reshape", [turned, graph.setting("merged", 0, 0, -1)], f"{name}.attended", domain="")


def _split_heads(
    graph: Graph, config: PreTrainedConfig, weights: Weights, name: str, joined: str
) -> list[str]:
    """Add the split of computed queries, keys and values; return their names."""
    width, heads, shared = head_width(config), config.num_attention_heads, config.num_key_value_heads
    sizes = graph.setting("sizes", heads * width, shared * width, shared * width)
    parts = [f"{name}.{part}" for part in "qkv"]
    graph.add("Split", [joined, sizes], *parts, domain="", axis=-1)
    return parts


def _normed_heads(
    graph: Graph, config: PreTrainedConfig, weights: Weights, name: str, joined: str
) -> list[str]:
    """Add the norm of queries and keys by head (Qwen3); return the names of queries, keys and values."""
    width = head_width(config)
    _split_heads(graph, config, weights, name, joined)
    all_heads = graph.setting("all_heads", 0, 0, -1, width)
    flat = graph.setting("merged", 0, 0, -1)
    for kind in "qk":
        split = graph.add("Reshape", [f"{name}.{kind}", all_heads], f"{name}.{kind}.heads", domain="")
        weight = weights.vector(f"{name}.{kind}_norm.weight")
        normed = graph.norm(split, weight, f"{name}.{kind}.normed", config.rms_norm_eps)
        graph.add("Reshape", [normed, flat], f"{name}.{kind}.ready", domain="")
    return [f"{name}.q.ready", f"{name}.k.ready", f"{name}.v"]


def _gated(graph: Graph, weights: Weights, name: str, x: str) -> str:
    """Add down(silu(gate(x)) · up(x)), with gate and up as one product; return its name."""
    joined = _linear(graph, weights, x, f"{name}.gate_up", f"{name}.gate_proj", f"{name}.up_proj")
    graph.add("Split", [joined], f"{name}.gate", f"{name}.up", domain="", axis=-1, num_outputs=2)
    gate = graph.add("QuickGelu", [f"{name}.gate"], f"{name}.silu", alpha=1.0)  # x · sigmoid(x)
    both = graph.add("Mul", [gate, f"{name}.up"], f"{name}.gated", domain="")
    return _linear(graph, weights, both, f"{name}.out", f"{name}.down_proj")


def _rotation(config: PreTrainedConfig, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines and sines [length, width / 2] of the rotary embedding."""
    kind = type(empty(config).model.rotary_emb)
    rotary = kind(config)
    angles = torch.arange(length)[:, None] * rotary.inv_freq.float()
    scaling = rotary.attention_scaling
    return (angles.cos() * scaling).numpy(), (angles.sin() * scaling).numpy()


def _declared(array: np.ndarray, name: str) -> onnx.TensorProto:
    """Return a tensor's name, type and shape without its values."""
    tensor = TensorProto(name=name, dims=array.shape)
    tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="given to the session")
    return tensor
