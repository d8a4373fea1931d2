"""The masks that the page draws: those of training, of decoding, and of forwards in recorded runs."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mars_demo.core import layout as layouts
from mars_demo.core.layout import Layout, Role
from mars_demo.core.trace import Run
from mars_demo.show.mask_picture import Cell, Picture, Region
from mars_demo.training import two_streams
from mars_demo.training.batch import Batch, batch_of
from mars_demo.training.corpus import Conversation
from mars_demo.training.two_streams import IGNORE, TwoStreams

WIDEST, MOST_CELLS = 4096, 2**20  # most columns and cells of a forward's picture


@dataclass(frozen=True, kw_only=True)
class Mask(Picture):
    """The picture of a layout of one sequence after the token ids `past`."""

    layout: Layout
    past: list[int]


@dataclass(frozen=True)
class Sentence:
    """The tokens and settings of a layout to draw.

    In training layouts the first `prompt` of the `ids` are the question. In `window` the last `new` are
    newly accepted; in the other inference layouts they are drafts.

    block_size: the block size of training, or the masks of a window or of each group. seed: the seed of the
    random block phase; None starts blocks with the answer. name: the text of a token.
    """

    ids: list[int]
    mask_id: int
    name: Callable[[int], str]
    prompt: int = 1
    new: int = 1
    block_size: int = 4
    seed: int | None = None


class Kind(NamedTuple):
    """A kind of mask. streams: the function of its training, unless it is one of decoding."""

    title: str
    streams: Callable[[Conversation, Sentence], TwoStreams] | None = None


def _mars(text: Conversation, sentence: Sentence) -> TwoStreams:
    rng, fixed = random.Random(sentence.seed), sentence.seed is None
    return two_streams.mars(text, sentence.block_size, sentence.mask_id, rng, fixed_blocks=fixed)


def _diffusion(text: Conversation, sentence: Sentence) -> TwoStreams:
    rng = random.Random(sentence.seed)
    return two_streams.diffusion(text, sentence.block_size, sentence.mask_id, rng)


KINDS = {
    "mars": Kind("MARS training", _mars),
    "ar": Kind("AR training", lambda text, sentence: two_streams.ar(text)),
    "block-diffusion": Kind("Block diffusion training", _diffusion),
    "window": Kind("Window of a forward"),
    "verification": Kind("Lossless: drafts and groups of masks"),
    "linear": Kind("Lossless, linear"),
    "speculative": Kind("Speculative decoding with MARS"),
}


def draw(kind: str, sentence: Sentence) -> Mask:
    """Return the mask of a sentence. kind: of `KINDS`."""
    if streams := KINDS[kind].streams:
        response = [i >= sentence.prompt for i in range(len(sentence.ids))]
        text = streams(Conversation(list(sentence.ids), response), sentence)
        return _of_batch(kind, batch_of([[text]], sentence.mask_id), sentence)
    return _window(sentence) if kind == "window" else _verification(kind, sentence)


def _of_batch(kind: str, batch: Batch, sentence: Sentence) -> Mask:
    mask_id, name = sentence.mask_id, sentence.name
    layout, targets = batch.layout, batch.targets[0].tolist()
    starts: dict[int, int] = {}  # first position of each block
    cells = []
    for token, position, role, block, target in zip(*_columns(layout), targets):
        target_name = None if target == IGNORE else name(target)
        if role == Role.CLEAN:
            cells.append(Cell(name(token), "clean", position, None, target_name, target_name and 1))
            continue
        start = starts.setdefault(block, position)
        predicted = position if kind == "block-diffusion" else position + 1
        label = "MASK" if token == mask_id else name(token)
        offset = None if target_name is None else predicted - (start - 1)
        cells.append(Cell(label, "noisy", position, block + 1, target_name, offset))
    clean, total = int(batch.is_clean.sum()), len(cells)
    regions = [Region("clean sees clean, causally", (0, clean), (0, clean))]
    if total > clean:
        regions += [
            Region("clean never sees noisy", (0, clean), (clean, total)),
            Region("noisy sees the clean tokens before its block", (clean, total), (0, clean)),
            Region(
                "noisy sees its own block" + ("" if kind == "block-diffusion" else ", causally"),
                (clean, total),
                (clean, total),
            ),
        ]
    return _mask(kind, layout, [], cells, cells, regions)


def _columns(layout: Layout) -> list[list[int]]:
    """Return the ids, positions, roles and groups of a layout of one sequence."""
    return [tensor[0].tolist() for tensor in (layout.ids, layout.positions, layout.roles, layout.groups)]


def _window(sentence: Sentence) -> Mask:
    """Draw one forward over the last `new` tokens and the masks after them."""
    ids, cached = sentence.ids, len(sentence.ids) - min(sentence.new, len(sentence.ids))
    layout = layouts.window(ids[cached:], sentence.block_size, sentence.mask_id, cached)
    return _of_inference("window", layout, ids[:cached], sentence.name)


def _verification(kind: str, sentence: Sentence) -> Mask:
    """Draw a forward over the last accepted token, the drafts and groups of masks."""
    ids, masks = sentence.ids, sentence.block_size
    cached = len(ids) - min(sentence.new, len(ids) - 1) - 1
    last, drafts = ids[cached : cached + 1], ids[cached + 1 :]
    layout = layouts.verification(last, drafts, masks, sentence.mask_id, cached, kind == "linear")
    return _of_inference(kind, layout, ids[:cached], sentence.name)


def _of_inference(kind: str, layout: Layout, past: Sequence[int], name: Callable[[int], str]) -> Mask:
    streams = {Role.PROMPT: "new", Role.NEW: "new", Role.DRAFT: "draft"}
    masks, real = ("mask", "real tokens") if kind == "window" else ("group", "last token and drafts")
    cells = []
    for token, position, role, group in zip(*_columns(layout)):
        if role == Role.MASK:
            cells.append(Cell("MASK", masks, position, None if kind == "window" else group))
        else:
            cells.append(Cell(name(token), streams[role], position))
    cached, width = len(past), len(past) + len(cells)
    tokens = cached + sum(cell.stream != masks for cell in cells)
    bands = {
        "in the cache": (0, cached),
        real: (cached, tokens),
        "masks" if kind == "window" else "groups of masks": (tokens, width),
    }
    regions = [Region(text, (0, len(cells)), band) for text, band in bands.items() if band[0] < band[1]]
    before = [Cell(name(token), "cached", i) for i, token in enumerate(past)]
    return _mask(kind, layout, past, cells, before + cells, regions)


def _mask(
    kind: str,
    layout: Layout,
    past: Sequence[int],
    rows: list[Cell],
    columns: list[Cell],
    regions: list[Region],
) -> Mask:
    visible = ["".join("1" if cell else "0" for cell in row) for row in layout.visible[0].tolist()]
    labels = {"rows": rows, "columns": columns, "regions": regions}
    return Mask(kind=kind, visible=visible, layout=layout, past=list(past), **labels)


def of_pass(
    run: Run, index: int, name: Callable[[int], str], prompt_ids: Sequence[int], mask_id: int
) -> Mask:
    """Draw the layout of a forward in a recorded run: cached, newly accepted or drafted tokens, and masks.

    prompt_ids: the ids of the run's whole conversation, including a given beginning of the answer.

    Raises:
        ValueError: if the record does not name all tokens of a forward in the run's mode, the record does
            not match its prompt, or the picture would be too large.
    """
    mode = run.settings.mode
    if mode not in ("ar", "mars", "lossless"):
        raise ValueError(
            f"A record of mode {mode} does not name all tokens of a forward. "
            "The mask can be drawn for ar, mars and lossless."
        )
    before, step = run.passes[:index], run.passes[index]
    text = [*prompt_ids, *(slot.id for past in before for slot in past.slots[: past.accepted])]
    width = len(text) + step.positions
    if width > WIDEST or step.positions * width > MOST_CELLS:
        raise ValueError(
            f"The mask of this forward, {step.positions} × {width}, is too large for a picture of at most "
            f"{WIDEST} columns and {MOST_CELLS} cells."
        )
    if mode == "lossless" and before:
        last = before[-1]
        drafts = [slot.id for slot in last.slots[last.accepted :]][: step.drafts]
        groups = step.groups or 1
        masks = (step.positions - 1 - len(drafts)) // groups
        if masks < 0:
            raise ValueError("The record counts fewer positions than its drafts need.")
        kind = "verification" if groups > 1 or not drafts else "linear"
        sentence = Sentence([*text, *drafts], mask_id, name, new=len(drafts), block_size=masks)
        return draw(kind, sentence)
    if not 0 <= run.settings.cached_tokens < len(prompt_ids):
        raise ValueError("The record counts more cached tokens than the prompt has.")
    new = before[-1].accepted if before else len(text) - run.settings.cached_tokens
    if not 1 <= new <= step.positions:
        raise ValueError("The record counts fewer positions than it has new tokens.")
    sentence = Sentence(text, mask_id, name, new=new, block_size=step.positions - new)
    return draw("window", sentence)
