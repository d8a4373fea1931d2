"""`recipe`: train the bundled models from scratch, or average checkpoints."""

import argparse
from pathlib import Path

from mars_demo.cli.output import notice
from mars_demo.core.assets import ASSETS
from mars_demo.core.names import BASE, CHAT, TINY
from mars_demo.recipes import average, smollm, tiny


def register(parser: argparse.ArgumentParser) -> None:
    recipes = parser.add_subparsers(dest="recipe", required=True)
    small = recipes.add_parser("tiny", help=f"{BASE} and {TINY}, from scratch")
    small.add_argument(
        "--output", type=Path, default=ASSETS, metavar="DIR", help="folder to create (default: assets)"
    )
    chat = recipes.add_parser("smollm", help=f"{CHAT}, from SmolLM2-135M-Instruct")
    chat.add_argument("--base", help="a GGUF file, folder or hub id of SmolLM2-135M-Instruct")
    chat.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to create")
    chat.add_argument("--stage", choices=smollm.STAGES, help="run only this stage")
    chat.add_argument(
        "--scale", choices=smollm.SCALES, default="full", help="cpu: a smaller recipe for two cores"
    )
    chat.add_argument(
        "--minutes",
        type=float,
        metavar="M",
        help="train for this time in all, instead of its steps",
    )
    averaged = recipes.add_parser("average", help="the weighted average of checkpoints of one shape")
    averaged.add_argument(
        "shares",
        nargs="+",
        type=_share,
        metavar="MODEL=SHARE",
        help="the first one gives the tokenizer and the recipe",
    )
    averaged.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to create")


def _share(text: str) -> tuple[str, float]:
    name, _, share = text.rpartition("=")
    try:
        if name:
            return name, float(share)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a model with a share, such as mars-tiny=0.9")


def run(arguments: argparse.Namespace) -> None:
    if arguments.recipe == "tiny":
        tiny.make(arguments.output)
    elif arguments.recipe == "average":
        average.write_average(arguments.shares, arguments.output)
    else:
        smollm.make(arguments.base, arguments.output, arguments.stage, arguments.scale, arguments.minutes)
    notice(f"{arguments.output} is ready.")
