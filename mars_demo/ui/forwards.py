"""Forwards: those of recorded runs, and what the model computes in one, its attention and its lens."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from mars_demo.core.layout import Layout
from mars_demo.core.trace import Pass, Run
from mars_demo.decoding.attention_weights import attention_weights
from mars_demo.decoding.lens import Lens, look
from mars_demo.models.chat import encode_prompt
from mars_demo.ui.hosting.gpu import on_gpu
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.masks import KINDS, Mask, of_pass

NO_FORWARD = "The lens needs a forward of decoding: choose one under “Show the mask of”."


class Forward(NamedTuple):
    """A mask, its caption and, for a recorded forward, its pass."""

    model: str
    mask: Mask
    caption: str
    step: Pass | None = None


def of_run(run: Run, number: int) -> Forward:
    """Return a forward of a recorded run.

    Raises:
        ValueError: if there is none with this number, or its mask cannot be drawn.
    """
    if type(number) is not int or not 1 <= number <= len(run.passes):
        raise ValueError(f"The record has no forward {number}.")
    settings, step = run.settings, run.passes[number - 1]
    checkpoint = MODELS.load(settings.model)
    mask = of_pass(run, number - 1, checkpoint.token_name, prompt_ids(run), checkpoint.mask_id)
    caption = f"Forward {number} of “{settings.prompt}”: {len(mask.rows)} positions computed."
    return Forward(settings.model, mask, caption, step)


def prompt_ids(run: Run) -> list[int]:
    """Return the token ids of a run's conversation, with the given beginning of the answer."""
    tokenizer = MODELS.load(run.settings.model).tokenizer
    given = [token for token, _ in run.settings.given]
    return encode_prompt(tokenizer, run.settings.conversation) + given


def slots_of(step: Pass) -> tuple[list[int | None], int]:
    """Return the tokens of a recorded forward's slots, and how many of its drafts were accepted.

    A slot whose draft came from prompt lookup instead of its mask is None.
    """
    return [None if slot.source == "copy" else slot.id for slot in step.slots], step.verified or 0


def lens_of(forward: Forward) -> str:
    """Return the lens of a forward of decoding as JSON, or an error message.

    A slot has its token, the kind of position that predicts it (the last real token, an accepted draft or a
    mask), and the layer at which it settles. A layer has a cell per slot: its most probable token, that
    token's probability, and the probability and the rank of the slot's token.
    """
    checkpoint, mask, step = MODELS.load(forward.model), forward.mask, forward.step
    try:
        if KINDS[mask.kind].streams:
            raise ValueError(NO_FORWARD)
        lens = _lens(forward.model, mask.layout, mask.past, *(slots_of(step) if step else ((), None)))
    except ValueError as error:
        return error_line(error)
    caption = f"Layer by layer. {forward.caption}"
    if checkpoint.quantized:
        caption += (
            f" The model decodes with {checkpoint.precision} weights, the lens uses dequantized weights "
            f"({checkpoint.dense.precision}), so its last layer may differ slightly from the record."
        )

    def name(token: int) -> str:
        return "MASK" if token == checkpoint.mask_id else checkpoint.token_name(token)

    def kind(slot: int) -> str:
        return "token" if slot == 0 else "draft" if slot <= lens.verified else "mask"

    slots = [
        {"label": name(token), "at": kind(slot), "settled": lens.settled(slot)}
        for slot, token in enumerate(lens.tokens)
    ]
    layers = [
        [[name(cell.token), round(cell.probability, 4), round(cell.wanted, 4), cell.rank] for cell in cells]
        for cells in lens.layers
    ]
    shown = {"caption": caption, "accepted": step and step.accepted, "slots": slots, "layers": layers}
    return json.dumps(shown, ensure_ascii=False)


@on_gpu(lambda *_: 5)
def _lens(
    model: str, layout: Layout, past: list[int], tokens: Sequence[int | None], verified: int | None
) -> Lens:
    return look(MODELS.load(model).dense.model, layout, past, tokens, verified)


@on_gpu(lambda *_: 5)
def attention_of(model: str, layout: Layout, past: list[int], layer: int, head: int) -> list[list[float]]:
    """Return the attention weights of a layout; layers and heads count from 1, and head 0 is their mean.

    Raises:
        ValueError: if there is no such layer or head.
    """
    loaded = MODELS.load(model).dense.model
    weights = attention_weights(loaded, layout, past, layer - 1, head - 1 if head else None)
    return [[round(weight, 4) for weight in row] for row in weights.tolist()]


def error_line(error: Exception) -> str:
    """Return an error message in place of a picture. Gradio's warnings need its queue: too slow here."""
    return json.dumps({"error": str(error)})
