"""The products of a forward with each kernel there is for them here, by how many positions they have.

    python -m benchmarks.kernels [--model mars-smollm2-135m] [--rounds 15] [--output FILE]

Random weights in the shapes of the model's layers, with q, k and v in one product and gate and up in
another, without attention, norms or the head. Prints the median milliseconds of all products of one
forward. A kernel that this processor does not have, or whose products are wrong, is left out, with the
reason.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from onnx import TensorProto
from pandas import DataFrame
from torch import Tensor

from mars_demo.decoding.costs import SIZES
from mars_demo.evaluation import results
from mars_demo.markdown import table
from mars_demo.models.graph import Graph, value
from mars_demo.models.load import outline
from mars_demo.models.packed import session_of
from mars_demo.models.quantized import GROUP, quantize
from mars_demo.progress import progress

Product = Callable[[Tensor], Tensor]
WRONG = 0.25  # of a product's size; 4 bits are wrong by less than this, and another layout by more


def dense(dtype: torch.dtype) -> Callable[[Tensor], Product]:
    def made(weight: Tensor) -> Product:
        cast = weight.to(dtype)
        return lambda x: torch.nn.functional.linear(x.to(dtype), cast)

    return made


def torch_int8(dtype: torch.dtype) -> Callable[[Tensor], Product]:
    """A scale per row."""

    def made(weight: Tensor) -> Product:
        scales = (weight.abs().amax(1) / 127).to(dtype)
        codes = (weight / scales[:, None].float()).round().to(torch.int8)
        return lambda x: torch._weight_int8pack_mm(x.to(dtype), codes, scales)

    return made


def torch_int4(dtype: torch.dtype) -> Callable[[Tensor], Product]:
    """A scale and a zero point per group."""

    def made(weight: Tensor) -> Product:
        groups = weight.unflatten(-1, (-1, GROUP))
        scales = groups.abs().amax(-1) / 7
        codes = (groups / scales[..., None]).round().int().flatten(1) + 8
        packed = torch._convert_weight_to_int4pack_for_cpu(codes, 2)
        both = torch.stack([scales.T, torch.zeros_like(scales.T)], dim=-1).to(dtype)
        return lambda x: torch._weight_int4pack_mm_for_cpu(x.to(dtype), packed, GROUP, both)

    return made


def torch_dynamic(weight: Tensor) -> Product:
    """8 bits for weights and inputs (FBGEMM)."""
    scales = weight.abs().amax(1) / 127
    zeros = torch.zeros(len(scales), dtype=torch.int64)
    codes = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(codes, None)
    return lambda x: torch.ops.quantized.linear_dynamic(x, packed, True)


def onnx_runtime(bits: int) -> Callable[[Tensor], Product]:
    """What a packed model uses, alone: a session per product."""

    def made(weight: Tensor) -> Product:
        graph = Graph()
        graph.product("x", quantize(weight, bits), "y")
        widths = {"x": weight.shape[1], "y": weight.shape[0]}
        ends = [[value(name, TensorProto.FLOAT, ["rows", width])] for name, width in widths.items()]
        session = session_of(graph.proto(*ends), graph)
        return lambda x: torch.from_numpy(session.run(None, {"x": x.numpy()})[0])

    return made


KERNELS: dict[str, Callable[[Tensor], Product]] = {
    "torch, float32": dense(torch.float32),
    "torch, bfloat16": dense(torch.bfloat16),
    "torch, int8 weights, float32": torch_int8(torch.float32),
    "torch, int8 weights, bfloat16": torch_int8(torch.bfloat16),
    "torch, int4 weights, float32": torch_int4(torch.float32),
    "torch, int4 weights, bfloat16": torch_int4(torch.bfloat16),
    "torch, dynamic int8": torch_dynamic,
    "ONNX Runtime, int8": onnx_runtime(8),
    "ONNX Runtime, int4": onnx_runtime(4),
}


def shapes(config) -> list[tuple[int, int]]:
    """[out, in] of a layer's products."""
    hidden, head = config.hidden_size, config.head_dim
    heads, shared = config.num_attention_heads, config.num_key_value_heads
    return [
        ((heads + 2 * shared) * head, hidden),
        (hidden, heads * head),
        (2 * config.intermediate_size, hidden),
        (hidden, config.intermediate_size),
    ]


def milliseconds(products: list[Product], inputs: list[Tensor], rounds: int) -> float:
    found = []
    for _ in range(rounds + 2):
        started = time.perf_counter()
        for product, x in zip(products, inputs):
            product(x)
        found.append(1000 * (time.perf_counter() - started))
    return median(found[2:])  # the first ones wake threads and fill caches


def check(kernel: Callable[[Tensor], Product], shape: tuple[int, int]) -> None:
    """
    Raises:
        ValueError: if its products are not those of the weights, but for rounding.
    """
    weight, x = torch.randn(shape), torch.randn(3, shape[1])
    wanted = x @ weight.T
    off = ((kernel(weight)(x).float() - wanted).norm() / wanted.norm()).item()
    if not off < WRONG:
        raise ValueError(f"Its products are wrong by {off:.0%}.")


@torch.inference_mode()
def row(name: str, config, rounds: int) -> dict:
    """The figures of a kernel, or why there are none."""
    per_layer = shapes(config)
    try:
        check(KERNELS[name], per_layer[0])
        layers = per_layer * config.num_hidden_layers
        products = [KERNELS[name](torch.randn(shape)) for shape in layers]
        found = {}
        for k in SIZES:
            inputs = [torch.randn(k, width) for _, width in layers]
            found[k] = milliseconds(products, inputs, rounds)
    except Exception as error:  # each kernel has a way of its own to say that it is not for this processor
        return {"kernel": name, "problem": next(iter(str(error).splitlines()), type(error).__name__)}
    return {"kernel": name, "ms": found}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-smollm2-135m")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    model = outline(arguments.model)
    rows = [
        row(name, model.model.config, arguments.rounds)
        for name in progress(KERNELS, len(KERNELS), "kernels", "kernel")
    ]
    shown = [
        {"kernel": one["kernel"]} | {f"k = {k}": f"{ms:.1f}" for k, ms in one["ms"].items()}
        for one in rows
        if "ms" in one
    ]
    machine = results.machine()
    print(f"{arguments.model}, {machine}, milliseconds by positions\n\n{table(DataFrame(shown))}")
    for one in rows:
        if "problem" in one:
            print(f"- {one['kernel']}: {one['problem']}")
    if arguments.output:
        results.write(arguments.output, machine, {"rows": rows})


if __name__ == "__main__":
    main()
