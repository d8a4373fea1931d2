"""Layouts as pictures: the matrix that runs, with words for its rows, columns and regions."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from mars_demo import layout as layouts
from mars_demo.corpus import Conversation
from mars_demo.layout import Layout
from mars_demo.objective import IGNORE, Batch, ar_batch, diffusion_batch, mars_batch

KINDS = {
    "mars": "MARS training: clean and noisy stream",
    "ar": "AR training: the clean stream alone",
    "block-diffusion": "Block diffusion training",
    "window": "Inference: the window of one forward",
    "verification": "Inference: drafts and groups of masks (lossless)",
    "linear": "Inference: drafts and one group of masks (lossless, linear)",
    "speculative": "Inference: a small model's drafts, verified and gone on with (section 4.6)",
}


@dataclass(frozen=True)
class Cell:
    """One row or column: what stands there.

    stream: clean, noisy, cached, new, mask, draft or group. block: of noisy ones the number of their block,
    of groups the number of theirs. target: what the row is trained to predict, and how far that lies
    behind the last real token it sees (`offset`).
    """

    label: str
    stream: str
    position: int
    block: int | None = None
    target: str | None = None
    offset: int | None = None


@dataclass(frozen=True)
class Region:
    """A named rectangle of the picture, [first, end) of its rows and columns."""

    text: str
    rows: tuple[int, int]
    columns: tuple[int, int]


@dataclass(frozen=True)
class Picture:
    """A layout of one row behind the token ids `past`, with a `Cell` for each of its rows and columns.

    weights: of attention, [rows, columns], where they are asked for.
    """

    kind: str
    layout: Layout
    past: list[int]
    rows: list[Cell]
    columns: list[Cell]
    regions: list[Region]
    weights: list[list[float]] | None = None

    @property
    def visible(self) -> list[str]:
        """A string of 0 and 1 per row, a character per column."""
        return ["".join("1" if cell else "0" for cell in row) for row in self.layout.visible[0].tolist()]

    def line(self, caption: str = "") -> str:
        cells = {
            name: [asdict(cell) for cell in getattr(self, name)] for name in ("rows", "columns", "regions")
        }
        shown = {"kind": self.kind, "caption": caption, "visible": self.visible, "weights": self.weights}
        return json.dumps(shown | cells, ensure_ascii=False)


def training(
    kind: str,
    ids: Sequence[int],
    prompt: int,
    block_size: int,
    seed: int | None,
    mask_id: int,
    name: Callable[[int], str],
) -> Picture:
    """The mask of the objective for one conversation of `ids`, the first `prompt` of them the question.

    seed: of the block phase; None begins blocks with the answer, as a fixed grid does.
    """
    sequence = Conversation(list(ids), [i >= prompt for i in range(len(ids))])
    rng = random.Random(seed)
    if kind == "ar":
        batch = ar_batch([sequence], pad_id=mask_id)
    elif kind == "block-diffusion":
        batch = diffusion_batch([sequence], block_size, mask_id, mask_id, rng)
    else:
        batch = mars_batch([sequence], block_size, mask_id, mask_id, rng, fixed_blocks=seed is None)
    return _of_batch(kind, batch, mask_id, name)


def _of_batch(kind: str, batch: Batch, mask_id: int, name: Callable[[int], str]) -> Picture:
    layout, clean = batch.layout, batch.clean_length
    ids, positions = layout.ids[0].tolist(), layout.positions[0].tolist()
    visible, targets = layout.visible[0], batch.targets[0].tolist()
    cells, blocks = [], {}
    for index, (token, position) in enumerate(zip(ids, positions)):
        sees = visible[index, :clean].nonzero().flatten().tolist()
        target = None if targets[index] == IGNORE else name(targets[index])
        if index < clean:
            offset = 1 if target is not None else None
            cells.append(Cell(name(token), "clean", position, None, target, offset))
            continue
        start = sees[-1] + 1 if sees else 0
        block = blocks.setdefault(start, len(blocks) + 1)
        predicted = position if kind == "block-diffusion" else position + 1
        offset = predicted - (start - 1) if target is not None else None
        label = "MASK" if token == mask_id else name(token)
        cells.append(Cell(label, "noisy", position, block, target, offset))
    total = len(cells)
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
    return Picture(kind, layout, [], cells, cells, regions)


def inference(
    kind: str,
    ids: Sequence[int],
    cached: int,
    masks: int,
    drafts: int,
    mask_id: int,
    name: Callable[[int], str],
) -> Picture:
    """One forward behind `cached` positions of `ids`: the rest of them are new, or drafts.

    In `window` all of `ids[cached:]` were newly accepted. In the others `ids[cached]` is the last accepted
    token and the next `drafts` ones are drafts.
    """
    past = [Cell(name(token), "cached", i) for i, token in enumerate(ids[:cached])]
    if kind == "window":
        new = list(ids[cached:])
        layout = layouts.window(new, masks, mask_id, cached)
        streams = ["new"] * len(new) + ["mask"] * masks
        groups = [None] * len(streams)
    else:
        drafted = list(ids[cached + 1 : cached + 1 + drafts])
        linear = kind == "linear"
        layout = layouts.verification([ids[cached]], drafted, masks, mask_id, cached, linear)
        behind = [len(drafted)] if linear else range(len(drafted) + 1)
        streams = ["new"] + ["draft"] * len(drafted) + ["group"] * (masks * len(behind))
        groups = [None] * (1 + len(drafted)) + [group for group in behind for _ in range(masks)]
    cells = [
        Cell("MASK" if stream in ("mask", "group") else name(token), stream, position, group)
        for token, position, stream, group in zip(
            layout.ids[0].tolist(), layout.positions[0].tolist(), streams, groups
        )
    ]
    real = sum(cell.stream in ("new", "draft") for cell in cells)
    total, width = len(cells), cached + len(cells)
    names = ("in the cache", "real tokens", "masks")
    if kind != "window":
        names = ("in the cache", "last token and drafts", "groups of masks")
    bands = ((0, cached), (cached, cached + real), (cached + real, width))
    regions = [Region(name, (0, total), band) for name, band in zip(names, bands) if band[0] < band[1]]
    return Picture(kind, layout, list(ids[:cached]), cells, past + cells, regions)


def of_pass(
    run, index: int, name: Callable[[int], str], prompt_ids: Sequence[int], mask_id: int
) -> Picture:
    """A forward of a recorded `trace.Run` as it was laid out: cached, newly accepted or drafted, masks.

    Raises:
        ValueError: if the run's mode puts tokens into a forward that the record does not name.
    """
    if run.settings.mode not in ("ar", "mars", "lossless"):
        raise ValueError(
            f"A record of mode {run.settings.mode} does not hold what was guessed: "
            "the mask can be drawn for ar, mars and lossless."
        )
    before = run.passes[:index]
    accepted = [slot.id for step in before for slot in step.slots[: step.accepted]]
    step, mode = run.passes[index], run.settings.mode
    text = [*prompt_ids, *accepted]
    if mode == "lossless" and before:
        drafts = [slot.id for slot in before[-1].slots[before[-1].accepted :]][: step.drafts]
        groups = step.groups or 1
        masks = (step.positions - 1 - len(drafts)) // groups
        kind = "verification" if groups > 1 or not drafts else "linear"
        return inference(kind, [*text, *drafts], len(text) - 1, masks, len(drafts), mask_id, name)
    new = before[-1].accepted if before else len(text)
    masks = step.positions - new
    return inference("window", text, len(text) - new, masks, 0, mask_id, name)


def ar_share(block_size: int, sft: bool) -> float:
    """The share of positions that train AR behaviour: 1/B, with the SFT loss (1 + 1/B)/2 (section 3.2)."""
    return (1 + 1 / block_size) / 2 if sft else 1 / block_size
