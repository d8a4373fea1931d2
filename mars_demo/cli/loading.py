"""The checkpoint of a command: its options and its loading."""

import argparse

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


def load_for(request, arguments: argparse.Namespace):
    """Load the checkpoint of a command, and measure its forwards if the windows of the request adapt.

    Raises:
        ValueError: as `load_checkpoint` and `Request.fitted`.
    """
    checkpoint = load_checkpoint(arguments.model, None, arguments.dtype, arguments.block_size)
    adapts = request.fitted(checkpoint).rules.paced and request.window is None
    return measured(checkpoint) if adapts else checkpoint


def say_raw(checkpoint) -> None:
    """Print a notice if the checkpoint has no chat template, so prompts are raw."""
    if not checkpoint.has_template:
        notice(f"{checkpoint.name} has no chat template: prompts are continued as raw text.")
