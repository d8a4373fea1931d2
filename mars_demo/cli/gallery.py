"""`gallery`: write the recorded runs and the lessons as pages that need no server."""

import argparse
from pathlib import Path

from mars_demo.cli.output import notice


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="a folder that is made")


def run(arguments: argparse.Namespace) -> None:
    from mars_demo.ui import gallery

    gallery.write(arguments.output)
    notice(f"Open {arguments.output / 'index.html'} in a browser; the folder is also a static Space.")
