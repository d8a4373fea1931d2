"""The checkpoint of a command: its options, and loading with a progress bar on standard error."""

import argparse
import sys

from tqdm import tqdm

from mars_demo.cli.output import notice
from mars_demo.decoding.pace import measured
from mars_demo.models.load import load_checkpoint

NAMES = "bundled name, folder, GGUF file or hub id"


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help=f"{NAMES} (default: best bundled)")
    parser.add_argument(
        "--block-size",
        type=int,
        metavar="B",
        help="block size of training, if the checkpoint does not say; 0 for an AR model",
    )


def load(name: str | None, block_size: int | None = None, dtype: str = "auto"):
    """Load a checkpoint; a terminal shows the progress of a download.

    Raises:
        ValueError: as `load_checkpoint`.
    """
    with tqdm(unit="B", unit_scale=True, leave=False, delay=1, disable=not sys.stderr.isatty()) as bar:

        def report(done: int, total: int) -> None:
            bar.desc, bar.total = f"Fetching {name}", total
            bar.update(done - bar.n)

        return load_checkpoint(name, None, dtype, block_size, report)


def load_for(request, arguments: argparse.Namespace):
    """Load the checkpoint of a command, and measure its forwards if the windows of the request adapt.

    Raises:
        ValueError: as `load_checkpoint` and `Request.fitted`.
    """
    checkpoint = load(arguments.model, arguments.block_size, arguments.dtype)
    adapts = request.fitted(checkpoint).rules.paced and request.window is None
    return measured(checkpoint) if adapts else checkpoint


def say_raw(checkpoint) -> None:
    """Print a notice if the checkpoint has no chat template, so prompts are raw."""
    if not checkpoint.has_template:
        notice(f"{checkpoint.name} has no chat template: prompts are continued as raw text.")
