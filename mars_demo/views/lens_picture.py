"""The lens of a forward as a picture: layers from the input to the output, slots across."""

import json

from mars_demo.decoding.lens import Lens
from mars_demo.decoding.trace import Pass
from mars_demo.models.checkpoint import Checkpoint


def line(lens: Lens, checkpoint: Checkpoint, caption: str = "", accepted: int | None = None) -> str:
    """Return the picture's JSON.

    Of each slot its token, what stands at the position that predicts it (the last real token, a draft that
    held or a mask) and the layer at which it settles; of each layer, a cell per slot: its most probable
    token, that token's probability, the probability of the token that came out, and its rank.

    accepted: how many slots joined the answer, where that is known.
    """

    def name(token: int) -> str:
        return "MASK" if token == checkpoint.mask_id else checkpoint.token_name(token)

    def place(slot: int) -> str:
        return "token" if slot == 0 else "draft" if slot <= lens.verified else "mask"

    slots = [
        {"label": name(token), "at": place(slot), "settled": lens.settled(slot)}
        for slot, token in enumerate(lens.tokens)
    ]
    layers = [
        [[name(cell.token), round(cell.probability, 4), round(cell.wanted, 4), cell.rank] for cell in cells]
        for cells in lens.layers
    ]
    shown = {"caption": caption, "accepted": accepted, "slots": slots, "layers": layers}
    return json.dumps(shown, ensure_ascii=False)


def recorded(step: Pass) -> tuple[list[int | None], int]:
    """Return the tokens that came out of a recorded forward's slots, and how many of its drafts held. What
    was copied in place of what a mask predicted is None."""
    return [None if slot.source == "copy" else slot.id for slot in step.slots], step.verified or 0
