"""`models`: describe checkpoints without loading their weights."""

import argparse

from mars_demo.cli.loading import NAMES
from mars_demo.cli.output import printable
from mars_demo.core.names import bundled
from mars_demo.models.facts import facts
from mars_demo.models.load import outline


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{NAMES} (default: all bundled)")
    parser.add_argument("--block-size", type=int, metavar="B", help="as for `generate`")


def run(arguments: argparse.Namespace) -> None:
    for name in arguments.names or bundled():
        print(name)
        for about, text in facts(outline(name, arguments.block_size)).shown:
            print(printable(f"  {about:<14} {text}"))
