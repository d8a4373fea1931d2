"""The attention of a graph: as one operator on KV caches in place, or as products."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto
from onnx.helper import make_tensor_value_info as value
from transformers import PreTrainedConfig

from mars_demo.core.modes import GUESSED_WINDOW, trained_window
from mars_demo.models.architectures import head_width
from mars_demo.models.runtime.onnx_graph import FLOATS, FUSED, LONGS, DecoderGraph, rotary_tables

INTS = TensorProto.INT32
COLUMNS = 16  # of a block in sums over columns


def stores(config: PreTrainedConfig) -> list[str]:
    """Return the names of the KV cache."""
    return [f"{kind}.{i}" for i in range(config.num_hidden_layers) for kind in ("key", "value")]


class _Heads:
    """The heads of a model's attention, and its tables of rotations.

    largest_window: the most slots of a window.
    """

    def __init__(self, config: PreTrainedConfig, largest_window: int):
        self.config, self.width = config, head_width(config)
        self.heads, self.shared = config.num_attention_heads, config.num_key_value_heads
        # A table has rows for all cached positions, also of masks and drafts beyond the context.
        self.tables = rotary_tables(config, config.max_position_embeddings + largest_window**2)

    def cached(self, past: str, suffix: str = "") -> list[onnx.ValueInfoProto]:
        """Return the inputs or outputs of the KV cache."""
        sizes = [1, self.shared, past, self.width]
        return [value(f"{name}{suffix}", FLOATS, sizes) for name in stores(self.config)]

    def split(self, graph: DecoderGraph, name: str, joined: str) -> list[str]:
        """Add the split of computed queries, keys and values; return their names.

        Queries and keys are normed by head if the model does so.
        """
        sizes = (count * self.width for count in (self.heads, self.shared, self.shared))
        parts = [f"{name}.{part}" for part in "qkv"]
        graph.add("Split", [joined, graph.setting("sizes", *sizes)], *parts, axis=-1)
        if graph.weights.gain(f"{name}.q_norm") is None:
            return parts
        by_head, flat = graph.setting("all_heads", 0, 0, -1, self.width), graph.setting("merged", 0, 0, -1)
        for part, kind in zip(parts[:2], "qk"):
            split = graph.add("Reshape", [part, by_head], f"{part}.heads")
            normed = graph.norm(split, f"{name}.{kind}_norm", f"{part}.normed")
            graph.add("Reshape", [normed, flat], f"{part}.ready")
        return [f"{name}.q.ready", f"{name}.k.ready", f"{name}.v"]


class FusedAttention(_Heads):
    """Attention as one operator, which extends KV caches in place.

    For each layer, `key.i` and `value.i` [1, heads, room, width] come out as `key.i.out` and `value.i.out`.
    Attention alone has m >= n positions, with the inputs `padding` [0, 0, 0, 0, m - n, 0], `real` [n],
    `positions` [1, m], `last` [1] (the index of the last cached position after the forward), `count` []
    (the number of cached positions) and `bias` [1, 1, m, count], added to the scores. If `count` is m,
    attention counts on from the first of `positions`; it reads all of them if `count` is larger and the
    bias has a column more.
    """

    def __init__(self, config: PreTrainedConfig):
        super().__init__(config, GUESSED_WINDOW)

    def inputs(self) -> list[onnx.ValueInfoProto]:
        return [
            value("padding", LONGS, [6]),
            value("real", LONGS, [1]),
            value("positions", LONGS, [1, "m"]),
            value("last", INTS, [1]),
            value("count", INTS, []),
            value("bias", FLOATS, [1, 1, "m", "count"]),
            *self.cached("room"),
        ]

    def outputs(self) -> list[onnx.ValueInfoProto]:
        return self.cached("room", ".out")

    def begin(self, graph: DecoderGraph) -> None:
        for name, table in zip(("cos", "sin"), self.tables):
            graph.constant(name, table)
        self._has_norms = graph.weights.gain("model.layers.0.self_attn.q_norm") is not None

    def add(self, graph: DecoderGraph, i: int, name: str, joined: str) -> str:
        padded = graph.add("Pad", [joined, "padding"], f"{name}.qkv")
        heads = self.split(graph, name, padded) if self._has_norms else [padded, "", ""]
        out = graph.add(
            "GroupQueryAttention",
            [*heads, f"key.{i}", f"value.{i}", "last", "count", "cos", "sin", "positions", "bias"],
            f"{name}.attended",
            f"key.{i}.out",
            f"value.{i}.out",
            num_heads=self.heads,
            kv_num_heads=self.shared,
            scale=self.width**-0.5,
            do_rotary=1,
            domain=FUSED,
        )
        return graph.add("Slice", [out, "zero", "real", graph.setting("axis", 1)], f"{name}.real")


class PlainAttention(_Heads):
    """Attention as products; other programs keep its KV caches.

    In a browser, the fused operator takes several times as long, and longer with every cached position.

    The inputs are `positions` [1, n], `bias` [n, past + n + rest], added to the scores, those `key.i` and
    `value.i` [1, heads, past, width] that are cached, and zeros, `rest` [1, heads, rest, width]. Those of
    the n positions come out as `computed` [2 · layers, heads, n, width], a key and a value for each layer.

    Sums over columns add in another order if their number is not a multiple of `COLUMNS`. The rest fills it
    up, so that the logits of a position do not depend on the number of positions.
    """

    def __init__(self, config: PreTrainedConfig):
        super().__init__(config, trained_window(getattr(config, "block_size", None)))

    def inputs(self) -> list[onnx.ValueInfoProto]:
        bias = value("bias", FLOATS, ["n", "total"])
        rest = value("rest", FLOATS, [1, self.shared, "rest", self.width])
        return [value("positions", LONGS, [1, "n"]), bias, rest, *self.cached("past")]

    def outputs(self) -> list[onnx.ValueInfoProto]:
        sizes = [2 * self.config.num_hidden_layers, self.shared, "n", self.width]
        return [value("computed", FLOATS, sizes)]

    def begin(self, graph: DecoderGraph) -> None:
        for name, table in zip(("cos", "sin"), self.tables):
            graph.constant(name, table)
            # Of the queries, whose rotation scales the scores.
            graph.constant(f"{name}.scaled", table * np.float32(self.width**-0.5))
        group = self.heads // self.shared
        graph.add("Tile", ["bias", graph.setting("group", group, 1)], "bias.rows")

    def add(self, graph: DecoderGraph, i: int, name: str, joined: str) -> str:
        width, shared, group = self.width, self.shared, self.heads // self.shared
        queries, keys, values = self.split(graph, name, joined)
        queries = self._rotated(graph, queries, f"{name}.q.rotated", ".scaled")
        keys = self._rotated(graph, keys, f"{name}.k.rotated")
        by_head = graph.setting("by_head", 0, 0, shared, width)
        for kind, x in (("key", keys), ("value", values)):
            new = self._turned(graph, x, by_head, [0, 2, 1, 3], f"{kind}.{i}.new")
            graph.add("Concat", [f"{kind}.{i}", new, "rest"], f"{name}.{kind}.all", axis=2)
        # The queries of all heads that share keys are the rows of one product.
        by_group = graph.setting("by_group", 0, 0, shared, group, width)
        turned = self._turned(graph, queries, by_group, [0, 2, 3, 1, 4], f"{name}.queries")
        rows = graph.add("Reshape", [turned, graph.setting("in_rows", 0, 0, -1, width)], f"{name}.rows")
        columns = graph.add("Transpose", [f"{name}.key.all"], f"{name}.columns", perm=[0, 1, 3, 2])
        scores = graph.add("MatMul", [rows, columns], f"{name}.scores")
        biased = graph.add("Add", [scores, "bias.rows"], f"{name}.biased")
        shares = graph.add("Softmax", [biased], f"{name}.shares", axis=-1)
        seen = graph.add("MatMul", [shares, f"{name}.value.all"], f"{name}.seen")
        of_rows = graph.setting("of_rows", 0, 0, group, -1, width)
        turned = self._turned(graph, seen, of_rows, [0, 3, 1, 2, 4], f"{name}.by_position")
        if i == self.config.num_hidden_layers - 1:
            graph.add("Concat", [f"{store}.new" for store in stores(self.config)], "computed", axis=0)
        return graph.add("Reshape", [turned, graph.setting("merged", 0, 0, -1)], f"{name}.attended")

    def _rotated(self, graph: DecoderGraph, x: str, name: str, tables: str = "") -> str:
        inputs = [x, "positions", f"cos{tables}", f"sin{tables}"]
        return graph.add("RotaryEmbedding", inputs, name, domain=FUSED)

    def _turned(self, graph: DecoderGraph, x: str, sizes: str, order: list[int], name: str) -> str:
        """Add x in the sizes of a setting, with its dimensions in another order; return its name."""
        split = graph.add("Reshape", [x, sizes], f"{name}.split")
        return graph.add("Transpose", [split], name, perm=order)
