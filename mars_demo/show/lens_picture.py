"""The lens of a forward as a picture: layers from input to output by slots."""

import json
from collections.abc import Callable
from typing import Any


def line(lens: Any, name: Callable[[int], str], caption: str = "", accepted: int | None = None) -> str:
    """Return the picture of a `decoding.lens.Lens` as JSON.

    A slot has its token, the kind of position that predicts it (the last real token, an accepted draft or a
    mask), and the layer at which it settles. A layer has a cell per slot: its most probable token, that
    token's probability, and the probability and the rank of the slot's token.

    name: the text of a token. accepted: how many slots were accepted, if known.
    """

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
