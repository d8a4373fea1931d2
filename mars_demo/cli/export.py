"""`export`: write a checkpoint as a model that decodes elsewhere."""

import argparse
from pathlib import Path

from mars_demo.cli.loading import NAMES
from mars_demo.cli.output import notice
from mars_demo.models.export import card
from mars_demo.models.export.save import save_checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.static import onnx_model


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=NAMES)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to create")
    parser.add_argument(
        "--format",
        choices=("onnx", "safetensors"),
        default="onnx",
        help="onnx: for browsers, with onnxruntime-web; safetensors: for transformers and vLLM",
    )
    parser.add_argument(
        "--bits",
        type=int,
        choices=(32, 8),
        help="bits per weight in ONNX (default: 32 below 50 million parameters, else 8)",
    )
    parser.add_argument("--block-size", type=int, metavar="B", help="as for `generate`")


def run(arguments: argparse.Namespace) -> None:
    checkpoint = load_checkpoint(arguments.model, None, "float32", arguments.block_size)
    if arguments.format == "safetensors":
        arguments.output.mkdir(parents=True, exist_ok=True)
        model, size = checkpoint.model, checkpoint.block_size
        save_checkpoint(model, checkpoint.tokenizer, arguments.output, size, checkpoint.objective)
        card.write_exported(checkpoint, arguments.output)
        notice(f"{arguments.output} has {checkpoint.name} in bfloat16.")
        return
    bits = arguments.bits or onnx_model.default_bits(checkpoint)
    onnx_model.write_onnx(checkpoint, arguments.output, bits)
    notice(f"{arguments.output} has {checkpoint.name} in {bits} bits per weight.")
