"""The returned pieces, joined to the trained bundle, described and tried."""

from pathlib import Path

from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.load import load_checkpoint
from mars_demo.recipes import smollm
from mars_demo.recipes.window import pieces

PROMPT = "Sort these: pear, apple"


def join(folders: list[Path], output: Path) -> None:
    """Write the bundle whose pieces lie in `folders` to `output`, and let it answer a prompt.

    Raises:
        ValueError: if a piece is missing or damaged, or the bundle does not load.
    """
    bundle = pieces.join(folders, output)
    smollm.describe(bundle)
    run = decode(load_checkpoint(str(bundle)), PROMPT, Request("mars", max_new_tokens=12)).finish()
    print(f"{bundle} answers {PROMPT!r} with {run.text!r}, in {run.forwards} forwards.")
