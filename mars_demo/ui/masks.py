"""The masks that the page draws: those of training, of decoding, and of forwards in recorded runs."""

import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import NamedTuple

from mars_demo.core import layout as layouts
from mars_demo.core.layout import Layout, Role
from mars_demo.core.trace import Pass, Run
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.training import two_streams
from mars_demo.training.batch import TrainingBatch, batch_of
from mars_demo.training.corpus import TokenizedConversation
from mars_demo.training.two_streams import IGNORE, TwoStreams

WIDEST, MOST_CELLS = 4096, 2**20  # most columns and cells of a forward's picture


@dataclass(frozen=True)
class Sentence:
    """The tokens and settings of a layout to draw.

    In training layouts the first `prompt` of the `ids` are the question. In `window` the last `new` are
    newly accepted; in the other inference layouts they are drafts, after `unread` tokens of the text that
    are not cached.

    block_size: the block size of training, or the masks of a window or of each group. seed: the seed of the
    random block phase; None starts blocks with the answer. name: the text of a token.
    """

    ids: list[int]
    mask_id: int
    name: Callable[[int], str]
    prompt: int = 1
    new: int = 1
    unread: int = 1
    block_size: int = 4
    seed: int | None = None


@dataclass(frozen=True)
class Cell:
    """The label of a row or column.

    stream: clean, noisy, cached, new, mask, draft or group. block: the number of the block or group, if
    any. target: the token that the row is trained to predict. offset: the target's distance from the last
    real token that the row sees.
    """

    label: str
    stream: str
    position: int
    block: int | None = None
    target: str | None = None
    offset: int | None = None


@dataclass(frozen=True)
class Region:
    """A named rectangle of the picture, with half-open ranges [first, end) of rows and columns."""

    text: str
    rows: tuple[int, int]
    columns: tuple[int, int]

    @property
    def is_empty(self) -> bool:
        return self.rows[0] == self.rows[1] or self.columns[0] == self.columns[1]


@dataclass(frozen=True)
class Mask:
    """The picture of the layout of a sentence, with a `Cell` per row and column. kind: of `KINDS`."""

    kind: str
    sentence: Sentence
    layout: Layout
    rows: list[Cell]
    columns: list[Cell]
    regions: list[Region]
    caption: str = ""

    @property
    def visible(self) -> list[str]:
        """Return a string of 0 and 1 per row, a character per column."""
        return ["".join("1" if cell else "0" for cell in row) for row in self.layout.visible[0].tolist()]

    def line(self) -> str:
        """Return the picture as JSON."""
        shown = {"kind": self.kind, "caption": self.caption, "visible": self.visible}
        shown |= {name: [asdict(cell) for cell in getattr(self, name)] for name in ("rows", "columns")}
        shown["regions"] = [asdict(region) for region in self.regions if not region.is_empty]
        return json.dumps(shown, ensure_ascii=False)


class Kind(NamedTuple):
    """A kind of mask. streams: the function of its training, unless it is one of decoding."""

    title: str
    streams: Callable[[TokenizedConversation, Sentence], TwoStreams] | None = None


def _mars(text: TokenizedConversation, sentence: Sentence) -> TwoStreams:
    rng, fixed = random.Random(sentence.seed), sentence.seed is None
    return two_streams.mars(text, sentence.block_size, sentence.mask_id, rng, fixed_blocks=fixed)


def _diffusion(text: TokenizedConversation, sentence: Sentence) -> TwoStreams:
    rng = random.Random(sentence.seed or 0)  # it also chooses which tokens are masks, in any phase
    return two_streams.diffusion(text, sentence.block_size, sentence.mask_id, rng)


KINDS = {
    "mars": Kind("MARS training", _mars),
    "ar": Kind("AR training", lambda text, sentence: two_streams.ar(text)),
    "block-diffusion": Kind("Block diffusion training", _diffusion),
    "window": Kind("Window of a forward"),
    "verification": Kind("Drafts and groups of masks"),
    "linear": Kind("Lossless, linear"),
}


def draw_mask(kind: str, sentence: Sentence) -> Mask:
    """Return the mask of a sentence. kind: of `KINDS`."""
    if streams := KINDS[kind].streams:
        response = [i >= sentence.prompt for i in range(len(sentence.ids))]
        text = streams(TokenizedConversation(list(sentence.ids), response), sentence)
        return _of_batch(kind, batch_of([[text]], sentence.mask_id), sentence)
    return _of_inference(kind, sentence)


def _of_batch(kind: str, batch: TrainingBatch, sentence: Sentence) -> Mask:
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
    own_block = "noisy sees its own block" + ("" if kind == "block-diffusion" else ", causally")
    regions = [
        Region("clean sees clean, causally", (0, clean), (0, clean)),
        Region("clean never sees noisy", (0, clean), (clean, total)),
        Region("noisy sees the clean tokens before its block", (clean, total), (0, clean)),
        Region(own_block, (clean, total), (clean, total)),
    ]
    return Mask(kind, sentence, layout, cells, cells, regions)


def _columns(layout: Layout) -> list[list[int]]:
    """Return the ids, positions, roles and groups of a layout of one sequence."""
    return [tensor[0].tolist() for tensor in (layout.ids, layout.positions, layout.roles, layout.groups)]


def _layout(kind: str, sentence: Sentence) -> Layout:
    """Return the layout of a forward over the last tokens, and the masks after them or after each one."""
    ids, masks, mask_id = sentence.ids, sentence.block_size, sentence.mask_id
    if kind == "window":
        cached = len(ids) - min(sentence.new, len(ids))
        return layouts.window(ids[cached:], masks, mask_id, cached)
    end = len(ids) - min(sentence.new, len(ids) - 1)
    cached = max(0, end - sentence.unread)
    return layouts.verification(ids[cached:end], ids[end:], masks, mask_id, cached, kind == "linear")


def _of_inference(kind: str, sentence: Sentence) -> Mask:
    layout, name = _layout(kind, sentence), sentence.name
    streams = {Role.PROMPT: "new", Role.NEW: "new", Role.DRAFT: "draft"}
    masks, real = ("mask", "real tokens") if kind == "window" else ("group", "last token and drafts")
    cells = []
    for token, position, role, group in zip(*_columns(layout)):
        if role == Role.MASK:
            cells.append(Cell("MASK", masks, position, None if kind == "window" else group))
        else:
            cells.append(Cell(name(token), streams[role], position))
    cached = cells[0].position  # positions count from the beginning of the text
    width = cached + len(cells)
    tokens = cached + sum(cell.stream != masks for cell in cells)
    every = (0, len(cells))
    regions = [
        Region("in the cache", every, (0, cached)),
        Region(real, every, (cached, tokens)),
        Region("masks" if kind == "window" else "groups of masks", every, (tokens, width)),
    ]
    before = [Cell(name(token), "cached", i) for i, token in enumerate(sentence.ids[:cached])]
    return Mask(kind, sentence, layout, cells, before + cells, regions)


def of_pass(run: Run, number: int, checkpoint: Checkpoint) -> Mask:
    """Draw the layout of a forward in a recorded run: cached, newly accepted or drafted tokens, and masks.

    number: the forward's, from 1 on. checkpoint: the run's model.

    Raises:
        ValueError: if there is no such forward, the record does not name all tokens of a forward in the
            run's mode, the record does not match its prompt, or the picture would be too large.
    """
    if type(number) is not int or not 1 <= number <= len(run.passes):
        raise ValueError(f"The record has no forward {number}.")
    settings, before, step = run.settings, run.passes[: number - 1], run.passes[number - 1]
    if settings.mode not in ("ar", "mars", "lossless"):
        raise ValueError(
            f"A record of mode {settings.mode} does not name all tokens of a forward. "
            "The mask can be drawn for ar, mars and lossless."
        )
    prompt_ids = encode_prompt(checkpoint.tokenizer, settings.conversation)
    head = run.passes[0]
    first = forced_first(head)
    ahead = () if before else head.slots[:first]
    accepted = (slot for past in before for slot in past.slots[: past.accepted])
    text = [*prompt_ids, *(slot.id for slot in (*accepted, *ahead))]
    width = len(text) + step.positions
    if width > WIDEST or step.positions * width > MOST_CELLS:
        raise ValueError(
            f"The mask of this forward, {step.positions} × {width}, is too large for a picture of at most "
            f"{WIDEST} columns and {MOST_CELLS} cells."
        )
    sentence = Sentence(text, checkpoint.mask_id, checkpoint.token_name, prompt=len(prompt_ids))
    if before:
        last = before[-1]
        new = last.accepted - (last.verified or 0) - (first if last is head else 0)
    else:
        new = len(text) - settings.cached_tokens
    if settings.mode == "lossless" and before:
        drafts = [slot.id for slot in last.slots[last.accepted :]][: step.drafts]
        groups = step.groups or 1
        masks = (step.positions - new - len(drafts)) // groups
        if masks < 0 or new < 1:
            raise ValueError("The record counts fewer positions than its drafts need.")
        kind = "verification" if groups > 1 or not drafts else "linear"
        verified = replace(sentence, ids=[*text, *drafts], new=len(drafts), unread=new)
        sentence = replace(verified, block_size=masks)
    else:
        if not 0 <= settings.cached_tokens < len(prompt_ids):
            raise ValueError("The record counts more cached tokens than the prompt has.")
        if not 1 <= new <= step.positions:
            raise ValueError("The record counts fewer positions than it has new tokens.")
        kind, sentence = "window", replace(sentence, new=new, block_size=step.positions - new)
    caption = f"Forward {number} of “{settings.prompt}”: {step.positions} positions computed."
    return replace(draw_mask(kind, sentence), caption=caption)


def forced_first(step: Pass) -> int:
    """Return how many tokens a grammar forced before the first forward, which computed them.

    They are the leading forced ones; if all are forced, the last one was accepted with the forward.
    """
    leading = sum(1 for _ in takewhile(lambda slot: slot.source == "forced", step.slots[: step.accepted]))
    return leading - (leading == step.accepted)
