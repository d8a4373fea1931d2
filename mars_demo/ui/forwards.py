"""Forwards of recorded runs, with their masks."""

from typing import NamedTuple

from mars_demo.core.trace import Run
from mars_demo.models.chat import encode_prompt
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.masks import Mask, of_pass


class DrawnForward(NamedTuple):
    """A mask and its caption."""

    model: str
    mask: Mask
    caption: str

    def line(self) -> str:
        """Return the picture with its caption as JSON."""
        return self.mask.line(self.caption)


def of_run(run: Run, number: int) -> DrawnForward:
    """Return a forward of a recorded run.

    Raises:
        ValueError: if there is none with this number, or its mask cannot be drawn.
    """
    if type(number) is not int or not 1 <= number <= len(run.passes):
        raise ValueError(f"The record has no forward {number}.")
    settings = run.settings
    checkpoint = MODELS.load(settings.model)
    mask = of_pass(run, number - 1, checkpoint.token_name, prompt_ids(run), checkpoint.mask_id)
    caption = f"Forward {number} of “{settings.prompt}”: {len(mask.rows)} positions computed."
    return DrawnForward(settings.model, mask, caption)


def prompt_ids(run: Run) -> list[int]:
    """Return the token ids of a run's conversation."""
    return encode_prompt(MODELS.load(run.settings.model).tokenizer, run.settings.conversation)
