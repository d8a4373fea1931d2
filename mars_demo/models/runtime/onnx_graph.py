"""A decoder as a graph of ONNX Runtime's fused operators, with float32 or quantized weights."""

from __future__ import annotations

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
EMBEDDING = "model.embed_tokens"
FLOATS, LONGS, INTS = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32


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
    heads = config.num_attention_heads * head_width(config)
    if config.hidden_size % GROUP or config.intermediate_size % GROUP or heads % GROUP:
        return f"its widths are not multiples of {GROUP}."
    return None


def stores(config: PreTrainedConfig) -> list[str]:
    """Return the names of the KV cache."""
    return [f"{kind}.{i}" for i in range(config.num_hidden_layers) for kind in ("key", "value")]


class Graph:
    """The nodes of a graph and their constant tensors."""

    def __init__(self) -> None:
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

    def product(
        self, x: str, matrix: Matrix, weight: str, name: str, bias: np.ndarray | None = None
    ) -> str:
        """Add x · matrixᵀ + bias; return its name. `weight` is the name of the matrix."""
        added = [] if bias is None else ["", "", self.constant(f"{name}.bias", bias)]
        q, scales = self.constant(f"{weight}.q", matrix.q), self.constant(f"{weight}.scales", matrix.scales)
        (out, width), inputs = matrix.shape, [x, q, scales, *added]
        settings = {"bits": 8, "block_size": GROUP, "accuracy_level": INTEGER_PRODUCTS}
        return self.add("MatMulNBits", inputs, name, N=out, K=width, **settings, domain=FUSED)

    def proto(
        self, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]
    ) -> onnx.ModelProto:
        """Return the graph in ONNX."""
        tensors = [self._stored(name, array) for name, array in self.tensors.items()]
        tensors = [*self.settings.values(), *tensors]
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, tensors)
        versions = [helper.make_opsetid("", 21), helper.make_opsetid(FUSED, 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=10)

    def _stored(self, name: str, array: np.ndarray) -> TensorProto:
        """Return a tensor's name, type and shape without its values, which a session is given."""
        tensor = TensorProto(name=name, dims=array.shape)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="given to the session")
        return tensor


class DecoderGraph(Graph):
    """The graph of a decoder with quantized weights, for this process.

    It computes the same as transformers, except that the inputs of products are quantized.

    The inputs are `hidden` [1, n, width], the embedded tokens; `rows` [r], the positions whose logits are
    needed; and for each layer `key.i` and `value.i` [1, heads, room, width], which come out as `key.i.out`
    and `value.i.out`. Attention alone has m >= n positions, with the inputs `padding` [0, 0, 0, 0, m - n,
    0], `real` [n], `positions` [1, m], `last` [1] (the index of the last cached position after the
    forward), `count` [] (the number of cached positions) and `bias` [1, 1, m, count], added to the scores.
    The output is `logits` [r, vocabulary]. If `count` is m, attention counts on from the first of
    `positions`; it reads all of them if `count` is larger and the bias has a column more.

    largest_window: the most slots of a window that it decodes.
    """

    def __init__(self, config: PreTrainedConfig, weights: Weights, largest_window: int = GUESSED_WINDOW):
        super().__init__()
        self.config, self.weights, self.width = config, weights, head_width(config)
        self.has_norms = weights.vector("model.layers.0.self_attn.q_norm.weight") is not None  # Qwen3
        # Attention requires a table of all cached positions, also of masks and drafts beyond the context.
        cos, sin = _rotation(config, config.max_position_embeddings + largest_window**2)
        self.constant("cos", cos)
        self.constant("sin", sin)
        self.setting("zero", 0)
        x, residual = self._hidden(), None
        for i in range(config.num_hidden_layers):
            layer = f"model.layers.{i}"
            attended, residual = self._normed(x, residual, f"{layer}.input_layernorm", f"{layer}.in")
            x = self._attention(i, attended)
            normed, residual = self._normed(
                x, residual, f"{layer}.post_attention_layernorm", f"{layer}.middle"
            )
            x = self._gated(f"{layer}.mlp", normed)
        last, _ = self._normed(x, residual, "model.norm", "last_hidden")
        flat = self.add("Squeeze", [last, "zero"], "flat")
        selected = self.add("Gather", [flat, "rows"], "selected", axis=0)
        self._linear(selected, "logits", EMBEDDING if config.tie_word_embeddings else "lm_head")

    def model(self) -> onnx.ModelProto:
        """Return the ONNX model, with its inputs and outputs."""
        inputs = [
            value("hidden", FLOATS, [1, "n", self.config.hidden_size]),
            value("padding", LONGS, [6]),
            value("real", LONGS, [1]),
            value("positions", LONGS, [1, "m"]),
            value("last", INTS, [1]),
            value("count", INTS, []),
            value("bias", FLOATS, [1, 1, "m", "count"]),
            value("rows", LONGS, ["r"]),
            *self._cached("room"),
        ]
        logits = value("logits", FLOATS, ["r", self.config.vocab_size])
        return self.proto(inputs, [logits, *self._cached("room", ".out")])

    def _cached(self, past: str, suffix: str = "") -> list[onnx.ValueInfoProto]:
        sizes = [1, self.config.num_key_value_heads, past, self.width]
        return [value(f"{name}{suffix}", FLOATS, sizes) for name in stores(self.config)]

    def _hidden(self) -> str:
        """Add the embedding if necessary; return the name of the embedded tokens."""
        return "hidden"

    def _norm(self, x: str, norm: str, name: str) -> str:
        """Add the RMS norm of x; return its name."""
        inputs = [x, self.constant(f"{name}.weight", self.weights.vector(f"{norm}.weight"))]
        epsilon = self.config.rms_norm_eps
        return self.add("SimplifiedLayerNormalization", inputs, name, epsilon=epsilon, axis=-1)

    def _normed(self, x: str, residual: str | None, norm: str, name: str) -> tuple[str, str]:
        """Add x + residual, if any, and its RMS norm; return the names of the norm and of the sum."""
        if residual is None:
            return self._norm(x, norm, name), x
        inputs = [x, residual, self.constant(f"{name}.weight", self.weights.vector(f"{norm}.weight"))]
        outputs, settings = [name, "", "", f"{name}.sum"], {"epsilon": self.config.rms_norm_eps}
        self.add("SkipSimplifiedLayerNormalization", inputs, *outputs, **settings, domain=FUSED)
        return name, f"{name}.sum"

    def _linear(self, x: str, name: str, *layers: str) -> str:
        """Add the linear layers of x, concatenated as one product; return its name."""
        bias = self.weights.vector(*(f"{layer}.bias" for layer in layers))
        return self.product(x, self.weights.matrix(*layers), layers[0], name, bias)

    def _attention(self, i: int, x: str) -> str:
        """Add the attention of layer i, which extends the layer's KV cache; return its output's name."""
        name = f"model.layers.{i}.self_attn"
        joined = self._linear(x, f"{name}.computed", *(f"{name}.{part}_proj" for part in "qkv"))
        return self._linear(self._attended(i, name, joined), f"{name}.out", f"{name}.o_proj")

    def _attended(self, i: int, name: str, joined: str) -> str:
        """Add attention as one operator on padded positions; return its output's name."""
        padded = self.add("Pad", [joined, "padding"], f"{name}.qkv")
        heads = self._normed_heads(name, padded) if self.has_norms else [padded, "", ""]
        out = self.add(
            "GroupQueryAttention",
            [*heads, f"key.{i}", f"value.{i}", "last", "count", "cos", "sin", "positions", "bias"],
            f"{name}.attended",
            f"key.{i}.out",
            f"value.{i}.out",
            num_heads=self.config.num_attention_heads,
            kv_num_heads=self.config.num_key_value_heads,
            scale=self.width**-0.5,
            do_rotary=1,
            domain=FUSED,
        )
        return self.add("Slice", [out, "zero", "real", self.setting("axis", 1)], f"{name}.real")

    def _split_heads(self, name: str, joined: str) -> list[str]:
        """Add the split of computed queries, keys and values; return their names."""
        heads, shared = self.config.num_attention_heads, self.config.num_key_value_heads
        sizes = self.setting("sizes", *(count * self.width for count in (heads, shared, shared)))
        parts = [f"{name}.{part}" for part in "qkv"]
        self.add("Split", [joined, sizes], *parts, axis=-1)
        return parts

    def _normed_heads(self, name: str, joined: str) -> list[str]:
        """Add the norm of queries and keys by head; return the names of queries, keys and values."""
        self._split_heads(name, joined)
        all_heads, flat = self.setting("all_heads", 0, 0, -1, self.width), self.setting("merged", 0, 0, -1)
        for kind in "qk":
            split = self.add("Reshape", [f"{name}.{kind}", all_heads], f"{name}.{kind}.heads")
            normed = self._norm(split, f"{name}.{kind}_norm", f"{name}.{kind}.normed")
            self.add("Reshape", [normed, flat], f"{name}.{kind}.ready")
        return [f"{name}.q.ready", f"{name}.k.ready", f"{name}.v"]

    def _gated(self, name: str, x: str) -> str:
        """Add down(silu(gate(x)) · up(x)), with gate and up as one product; return its name."""
        joined = self._linear(x, f"{name}.gate_up", f"{name}.gate_proj", f"{name}.up_proj")
        self.add("Split", [joined], f"{name}.gate", f"{name}.up", axis=-1, num_outputs=2)
        # x · sigmoid(x)
        gate = self.add("QuickGelu", [f"{name}.gate"], f"{name}.silu", alpha=1.0, domain=FUSED)
        both = self.add("Mul", [gate, f"{name}.up"], f"{name}.gated")
        return self._linear(both, f"{name}.out", f"{name}.down_proj")


class ExportedGraph(DecoderGraph):
    """The graph of a decoder that other programs run, with float32 or quantized weights.

    It contains the values of its tensors, embeds token ids, pads nothing, and computes in float32, which is
    faster in a browser than quantized products.

    The inputs are `ids` [1, n], `positions` [1, n], `bias` [n, past + n], `rows` [r], and those `key.i` and
    `value.i` [1, heads, past, width] that are cached. Those of the n positions come out as `computed`
    [2 · layers, heads, n, width], a key and a value for each layer, beside `logits` [r, vocabulary].
    """

    def __init__(self, config: PreTrainedConfig, weights: Weights):
        super().__init__(config, weights, trained_window(getattr(config, "block_size", None)))
        self.add("Concat", [f"{name}.new" for name in stores(config)], "computed", axis=0)

    def model(self) -> onnx.ModelProto:
        """Return the ONNX model, with its inputs and outputs."""
        cached = self._cached("past")
        inputs = [
            value("ids", LONGS, [1, "n"]),
            value("positions", LONGS, [1, "n"]),
            value("bias", FLOATS, ["n", "total"]),
            value("rows", LONGS, ["r"]),
        ]
        sizes = [len(cached), self.config.num_key_value_heads, "n", self.width]
        logits = value("logits", FLOATS, ["r", self.config.vocab_size])
        return self.proto([*inputs, *cached], [logits, value("computed", FLOATS, sizes)])

    def product(
        self, x: str, matrix: Matrix, weight: str, name: str, bias: np.ndarray | None = None
    ) -> str:
        if bias is None:
            return self.add("MatMul", [x, self._dense(matrix, weight)], name)
        added = self.constant(f"{name}.bias", bias)
        product = self.add("MatMul", [x, self._dense(matrix, weight)], f"{name}.product")
        return self.add("Add", [product, added], name)

    def _dense(self, matrix: Matrix, weight: str) -> str:
        """Add a matrix [in, out], dequantized from 8 bits if necessary; return its name.

        A session dequantizes it once if `session.disable_quant_qdq` is set, otherwise in every forward.
        """
        if not isinstance(matrix, Quantized):
            return self.constant(weight, matrix.T)
        if f"{weight}.q" not in self.tensors:
            q = self.constant(f"{weight}.q", matrix.signed().T)
            scales = self.constant(f"{weight}.scales", matrix.scales.T)
            self.add("DequantizeLinear", [q, scales], weight, axis=0, block_size=GROUP)
        return weight

    def _stored(self, name: str, array: np.ndarray) -> TensorProto:
        return numpy_helper.from_array(array, name)

    def _hidden(self) -> str:
        for table in ("cos", "sin"):  # of the queries, whose rotation scales the scores
            self.constant(f"{table}.scaled", self.tensors[table] * np.float32(self.width**-0.5))
        table = self._dense(self.weights.matrix(EMBEDDING), EMBEDDING)
        columns = self.add("Gather", [table, "ids"], "embedded", axis=1)
        hidden = self.add("Transpose", [columns], "hidden", perm=[1, 2, 0])
        group = self.config.num_attention_heads // self.config.num_key_value_heads
        self.add("Tile", ["bias", self.setting("group", group, 1)], "bias.rows")
        return hidden

    def _attended(self, i: int, name: str, joined: str) -> str:
        """Add attention as products; return its output's name.

        In a browser, the fused operator takes several times as long, and longer with every cached position.
        """
        width, shared = self.width, self.config.num_key_value_heads
        group = self.config.num_attention_heads // shared
        heads = self._normed_heads if self.has_norms else self._split_heads
        queries, keys, values = heads(name, joined)
        queries = self._rotated(queries, f"{name}.q.rotated", ".scaled")
        keys = self._rotated(keys, f"{name}.k.rotated")
        by_head = self.setting("by_head", 0, 0, shared, width)
        for kind, x in (("key", keys), ("value", values)):
            new = self._turned(x, by_head, [0, 2, 1, 3], f"{kind}.{i}.new")
            self.add("Concat", [f"{kind}.{i}", new], f"{name}.{kind}.all", axis=2)
        # The queries of all heads that share keys are the rows of one product.
        by_group = self.setting("by_group", 0, 0, shared, group, width)
        turned = self._turned(queries, by_group, [0, 2, 3, 1, 4], f"{name}.queries")
        rows = self.add("Reshape", [turned, self.setting("in_rows", 0, 0, -1, width)], f"{name}.rows")
        columns = self.add("Transpose", [f"{name}.key.all"], f"{name}.columns", perm=[0, 1, 3, 2])
        scores = self.add("MatMul", [rows, columns], f"{name}.scores")
        biased = self.add("Add", [scores, "bias.rows"], f"{name}.biased")
        shares = self.add("Softmax", [biased], f"{name}.shares", axis=-1)
        seen = self.add("MatMul", [shares, f"{name}.value.all"], f"{name}.seen")
        of_rows = self.setting("of_rows", 0, 0, group, -1, width)
        turned = self._turned(seen, of_rows, [0, 3, 1, 2, 4], f"{name}.by_position")
        return self.add("Reshape", [turned, self.setting("merged", 0, 0, -1)], f"{name}.attended")

    def _rotated(self, x: str, name: str, tables: str = "") -> str:
        inputs = [x, "positions", f"cos{tables}", f"sin{tables}"]
        return self.add("RotaryEmbedding", inputs, name, domain=FUSED)

    def _turned(self, x: str, sizes: str, order: list[int], name: str) -> str:
        """Add x in the sizes of a setting, with its dimensions in another order; return its name."""
        split = self.add("Reshape", [x, sizes], f"{name}.split")
        return self.add("Transpose", [split], name, perm=order)


def _rotation(config: PreTrainedConfig, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines and sines [length, width / 2] of the rotary embedding."""
    kind = type(empty(config).model.rotary_emb)
    rotary = kind(config)
    angles = torch.arange(length)[:, None] * rotary.inv_freq.float()
    scaling = rotary.attention_scaling
    return (angles.cos() * scaling).numpy(), (angles.sin() * scaling).numpy()
