"""The lens of a forward as a picture: layers from input to output by slots."""

import json

from mars_demo.decoding.lens import Lens
from mars_demo.decoding.trace import Pass
from mars_demo.models.checkpoint import Checkpoint


def line(lens: Lens, checkpoint: Checkpoint, caption: str = "", accepted: int | None = None) -> str:
    """Return the picture as JSON.

    A slot has its token, the kind of position that predicts it (the last real token, an accepted draft or a
    mask), and the layer at which it settles. A layer has a cell per slot: its most probable token, that
    token's probability, and the probability and the rank of the slot's token.

    accepted: how many slots were accepted, if known.
    """

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
    shown = {"caption": caption, "accepted": accepted, "slots": slots, "layers": layers}
    return json.dumps(shown, ensure_ascii=False)


def recorded(step: Pass) -> tuple[list[int | None], int]:
    """Return the tokens of a recorded forward's slots, and how many of its drafts were accepted.

    A slot whose draft came from prompt lookup instead of its mask is None.
    """
    return [None if slot.source == "copy" else slot.id for slot in step.slots], step.verified or 0
