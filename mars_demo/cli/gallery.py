"""`gallery`: write the recorded runs and lessons as a static site."""

import argparse
from pathlib import Path

from mars_demo.cli.output import notice
from mars_demo.ui import gallery


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to create")


def run(arguments: argparse.Namespace) -> None:
    gallery.write(arguments.output)
    notice(f"Open {arguments.output / 'index.html'} in a browser; the folder is also a static Space.")
