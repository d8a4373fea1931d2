"""Which checkpoint a command uses: its options, and loading it with a bar on standard error."""

import argparse
import sys

from tqdm import tqdm

from mars_demo.cli.output import notice

NAMES = "bundled name, folder, GGUF file or hub id"


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help=f"{NAMES} (default: best bundled)")
    parser.add_argument(
        "--block-size",
        type=int,
        metavar="B",
        help="masks per block it was trained with, if it does not say so itself; 0: none",
    )


def load(name: str | None, block_size: int | None = None, dtype: str = "auto"):
    """The checkpoint of that name. While it is fetched from a hub, a terminal shows the bytes.

    Raises:
        ValueError: as `load_checkpoint`.
    """
    from mars_demo.models.load import load_checkpoint

    with tqdm(unit="B", unit_scale=True, leave=False, delay=1, disable=not sys.stderr.isatty()) as bar:

        def report(phase: str, done: int, total: int) -> None:
            if phase == "fetching":
                bar.desc, bar.total = f"Fetching {name}", total
                bar.update(done - bar.n)

        return load_checkpoint(name, dtype=dtype, block_size=block_size, report=report)


def say_raw(checkpoint) -> None:
    """Say so if prompts are raw because of the checkpoint."""
    if not checkpoint.has_template:
        notice(f"{checkpoint.name} has no chat template: prompts are continued as raw text.")
