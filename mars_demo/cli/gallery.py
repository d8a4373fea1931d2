"""`gallery`: write recorded runs, lessons and a live page as a static site."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from mars_demo.cli.loading import load
from mars_demo.cli.output import notice
from mars_demo.static import live
from mars_demo.static.live.runtime import MissingLibraries
from mars_demo.ui import gallery


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to create")


def run(arguments: argparse.Namespace) -> None:
    write(arguments.output)
    notice(f"Open {arguments.output / 'index.html'} in a browser; the folder is also a static Space.")


def write(output: Path, models: Sequence[str] = live.MODELS, repository: str | None = None) -> None:
    """Write the gallery; without the live page, and with a notice, if its libraries cannot be had.

    models: the names of the models that decode on the live page.
    repository: the OWNER/NAME of the Space, if it has one already.
    """
    gallery.check_new(output)
    with TemporaryDirectory() as folder:
        files = Path(folder)
        try:
            size = live.collect(files, (load(name, None, "float32") for name in models))
        except MissingLibraries as error:
            notice(f"No live page: {error}")
            gallery.write(output, None, repository)
            return
        notice(f"The live page has {size / 1e6:.0f} MB with {' and '.join(models)}.")
        gallery.write(output, files, repository)
