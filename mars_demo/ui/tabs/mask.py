"""The Mask tab: the attention mask of training and of each forward of decoding."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import gradio as gr

from mars_demo.decoding.lens import look
from mars_demo.decoding.trace import Run, read_text
from mars_demo.limits import refuse_long
from mars_demo.models.chat import encode_prompt
from mars_demo.ui import models
from mars_demo.ui.components.drawing import Drawing
from mars_demo.ui.controls import LIVE, QUIET, model_list
from mars_demo.ui.hosting.gpu import on_gpu
from mars_demo.ui.scripts import call
from mars_demo.ui.tabs import Page
from mars_demo.views import lens_picture, mask_picture, plots
from mars_demo.views.attention_weights import Attention
from mars_demo.views.mask_picture import KINDS, Sentence

TITLE = "Mask"
SENTENCE = "Which city is the capital of Latvia? The capital of Latvia is Riga."
INTRODUCTION = """
Each row is a position that the model computes; a filled cell is a position that it **sees**. In training,
the **clean stream** is the text itself and the **noisy stream** holds the masks, in blocks of B. In
decoding, one **forward** (a pass through the model) computes the rows; everything else is in the cache.
"""
NO_FORWARD = "The lens needs a forward of decoding: choose one under “Show the mask of”."
MAX_TOKENS = 128
MAX_MASKS = MAX_DRAFTS = 16
LONGEST_SENTENCE = 2048  # bytes of a sentence in the URL
DEPENDENT = ("prompt", "new", "block_size", "random_phase", "layer", "head")
NUMBERS = ("length", "prompt", "new", "block_size", "layer", "head")


class Settings(NamedTuple):
    """The values of the controls. kind: of `mask_picture.KINDS`."""

    sentence: str
    model: str
    kind: str
    length: float
    prompt: float
    new: float
    block_size: float
    random_phase: bool
    look: bool
    layer: float
    head: float
    lens: bool

    def ids(self) -> list[int]:
        """Return the first tokens of the sentence.

        Special tokens are included, since a forward from the stage contains those of the chat template.

        Raises:
            ValueError: if there are fewer than four, or the sentence is longer than a prompt may be.
        """
        tokenizer = models.load(self.model).tokenizer
        refuse_long(self.sentence or "")
        most = min(max(int(self.length), 0), MAX_TOKENS)
        ids = tokenizer(self.sentence or "", add_special_tokens=False)["input_ids"][:most]
        if len(ids) < 4:
            raise ValueError("The sentence is too short for a picture; write at least four tokens.")
        return ids


SETTINGS = Settings._fields
LOOKS = ("look", "layer", "head", "lens")  # the settings that do not affect the layout


class Shown(NamedTuple):
    """A picture, its caption and, for a recorded forward, the result.

    tokens: those of its slots. verified, accepted: the numbers of accepted drafts and slots.
    """

    picture: Any
    words: str
    tokens: Sequence[int | None] = ()
    verified: int | None = None
    accepted: int | None = None


class Sent(NamedTuple):
    """A forward from the stage, and the settings that describe it."""

    settings: Settings
    shown: Shown

    def fits(self, chosen: Settings) -> bool:
        """Return whether the settings still describe it."""
        pairs = zip(SETTINGS, self.settings, chosen)
        return all(name in LOOKS or sent == now for name, sent, now in pairs)


# ----------------------------------------------------------------------------------- the picture


def see(sent: Sent | None, *settings):
    """Return the picture and the lens of the sent forward, if the settings fit, or of the sentence."""
    chosen = Settings(*settings)
    try:
        shown = sent.shown if sent and sent.fits(chosen) else Shown(*_picture(chosen))
        picture = shown.picture
        if chosen.look:
            where = int(chosen.layer) - 1, int(chosen.head) - 1
            weights = _weights(chosen.model, picture.layout, picture.past, *where)
            picture = replace(picture, weights=weights)
    except ValueError as error:
        return _error(error), gr.skip()
    return picture.line(shown.words), _lens(shown, chosen.model) if chosen.lens else ""


def _lens(shown: Shown, model: str) -> str:
    checkpoint, picture = models.load(model), shown.picture
    try:
        if _kinds()[picture.kind].trains:
            raise ValueError(NO_FORWARD)
        lens = look_inside(model, picture.layout, picture.past, shown.tokens, shown.verified)
    except ValueError as error:
        return _error(error)
    words = f"Layer by layer. {shown.words}"
    if checkpoint.quantized:
        words += (
            f" The model decodes with {checkpoint.precision} weights, the lens uses dequantized weights "
            f"({checkpoint.dense.precision}), so its last layer may differ slightly from the record."
        )
    return lens_picture.line(lens, checkpoint, words, shown.accepted)


@on_gpu(lambda *_: 5)
def look_inside(model: str, layout, past: list[int], tokens: Sequence[int | None], verified: int | None):
    return look(models.load(model).dense.model, layout, past, tokens, verified)


def _error(error: Exception) -> str:
    """Return an error message in place of a picture. Gradio's warnings need its queue: too slow here."""
    return json.dumps({"error": str(error)})


def _kinds() -> dict:
    return KINDS


def _picture(chosen: Settings):
    """Return the picture of a layout and a caption with its size."""
    checkpoint, ids, kind = models.load(chosen.model), chosen.ids(), _kinds()[chosen.kind]
    prompt = min(int(chosen.prompt), len(ids) - 2)
    picture = kind.draw(
        Sentence(
            ids,
            checkpoint.tokenizer.pad_token_id if checkpoint.mask_id is None else checkpoint.mask_id,
            checkpoint.token_name,
            prompt=prompt,
            new=int(chosen.new),
            block_size=int(chosen.block_size),
            seed=len(ids) if chosen.random_phase else None,
        )
    )
    positions = len(picture.rows)
    if kind.trains:
        return picture, _training_size(chosen.kind, len(ids), len(ids) - prompt, positions)
    return picture, f"{positions} positions computed in one forward, {len(picture.past)} in the cache."


def _training_size(kind: str, tokens: int, answer: int, positions: int) -> str:
    words = f"{tokens} clean and {positions - tokens} noisy positions."
    if kind != "mars":
        return words
    return (
        f"{words} With L = {tokens} tokens, R = {answer} of them the answer, that is about L + R; "
        f"the paper copies the whole text and computes 2L = {2 * tokens} positions."
    )


@lru_cache(maxsize=1)
def _attention(model):
    """Return the attention of a model, cached for the last model."""
    return Attention(model)


@on_gpu(lambda *_: 5)
def _weights(model: str, layout, past: list[int], layer: int, head: int) -> list[list[float]]:
    """Return the attention weights of a layout; head -1 means the average of all heads."""
    attention = _attention(models.load(model).dense.model)
    if not 0 <= layer < attention.layers or head >= attention.heads:
        raise ValueError(f"{model} has layers 1 to {attention.layers} and heads 1 to {attention.heads}.")
    weights = attention.weights(layout, past, layer, None if head < 0 else head)
    return [[round(weight, 4) for weight in row] for row in weights.tolist()]


# ---------------------------------------------------------------------------------- the controls


def ranges(*settings) -> dict[str, dict]:
    """Return updates of the controls whose range depends on other controls."""
    chosen = Settings(*settings)
    config = models.load(chosen.model).model.config
    try:
        tokens = len(chosen.ids())
    except ValueError:  # the sentence is too short, which the picture says
        tokens = 4
    training, window, ar = _kinds()[chosen.kind].trains, chosen.kind == "window", chosen.kind == "ar"
    masks = "Block size B" if training else "Masks" if window else "Masks per group"
    new = "New tokens before the masks" if window else "Drafts"
    most = tokens if window else min(MAX_DRAFTS, tokens - 1)

    def slider(value: float, least: int, most: int, **more) -> dict:
        return {"minimum": least, "maximum": most, "value": min(max(value, least), most)} | more

    return {
        "prompt": slider(chosen.prompt, 1, tokens - 2, interactive=training),
        "new": slider(chosen.new, int(window), most, label=new, interactive=not training),
        "block_size": slider(chosen.block_size, int(training), MAX_MASKS, label=masks, interactive=not ar),
        "random_phase": {"interactive": chosen.kind in ("mars", "block-diffusion")},
        "layer": slider(chosen.layer, 1, config.num_hidden_layers, interactive=chosen.look),
        "head": slider(chosen.head, 0, config.num_attention_heads, interactive=chosen.look),
    }


def adjust(sent: Sent | None, *settings):
    """Return the ranges that depend on the settings, and the picture with its lens."""
    updates = ranges(*settings)
    values = dict(zip(SETTINGS, settings)) | {
        name: update["value"] for name, update in updates.items() if "value" in update
    }
    return *(gr.update(**update) for update in updates.values()), *see(sent, *values.values())


def adjust_unless_drawn(sent: Sent | None, sentence: str, *settings):
    """Do the same for a new sentence; skip that of a sent forward, which is drawn already."""
    if sent and sentence == sent.settings.sentence:
        return [gr.skip()] * (len(DEPENDENT) + 2)
    return adjust(sent, sentence, *settings)


def opened(shown: str, request: gr.Request, *settings):
    """Fill the tab when it is first opened, with the settings in the URL and their picture.

    A forward from the stage stays.
    """
    if shown:
        return [gr.skip()] * (len(SETTINGS) + 2)
    names = models.names()
    updates = _updates(dict(zip(SETTINGS, settings)) | {"model": names[0]} | _in_url(request, names))
    values = (update["value"] for update in updates.values())
    return *(gr.update(**update) for update in updates.values()), *see(None, *values)


def _updates(values: dict[str, Any]) -> dict[str, dict]:
    """Return updates of all controls: their values, ranges and choices."""
    updates = {name: {"value": value} for name, value in values.items()}
    for name, update in ranges(*values.values()).items():
        updates[name] |= update
    updates["model"]["choices"] = list(dict.fromkeys([*models.names(), values["model"]]))
    updates["kind"]["choices"] = [(kind.title, name) for name, kind in _kinds().items()]
    return updates


def _in_url(request: gr.Request, names: list[str]) -> dict:
    """Return the valid settings in the URL."""
    query = {name: request.query_params.get(f"mask_{name}", "") for name in SETTINGS}
    numbers = {name: int(query[name]) for name in NUMBERS if re.fullmatch("[0-9]{1,4}", query[name])}
    if "length" in numbers:
        numbers["length"] = min(max(numbers["length"], 4), MAX_TOKENS)
    allowed = {"kind": _kinds(), "model": names, "sentence": [query["sentence"]]}
    texts = {name: query[name] for name, values in allowed.items() if query[name] in values}
    flags = {name: True for name in ("random_phase", "look", "lens") if query[name] == "true"}
    return numbers | {name: text for name, text in texts.items() if text} | flags


def show_pass(lens: bool, event: gr.EventData):
    """Draw the mask of a forward from the stage, and set the controls to it.

    event: its run's `record`, and its `number`.
    """
    try:
        run, *_ = read_text(event.record) or [None]
        refuse_long(*(message["content"] for message in run.settings.conversation))
        number = int(event.number)
        if not 1 <= number <= run.forwards:
            raise ValueError(f"The record has no forward {number}.")
        shown, prompt_tokens = _of_run(run, number)
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        error = error if type(error) is ValueError else ValueError("This is not a forward of a record.")
        return *[gr.skip()] * (len(SETTINGS) + 1), _error(error), gr.skip(), gr.Tabs(selected="mask")
    updates = _controls(shown.picture, models.load(run.settings.model), prompt_tokens, lens)
    sent = Sent(Settings(*(updates[name]["value"] for name in SETTINGS)), shown)
    return (
        *(gr.update(**updates[name]) for name in SETTINGS),
        sent,
        shown.picture.line(shown.words),
        _lens(shown, sent.settings.model) if lens else "",
        gr.Tabs(selected="mask"),
    )


def _of_run(run: Run, number: int) -> tuple[Shown, int]:
    """Return a forward of a recorded run, and the number of tokens of its prompt.

    Raises:
        ValueError: if it cannot be drawn.
    """
    checkpoint, step = models.load(run.settings.model), run.passes[number - 1]
    prompt_ids = encode_prompt(checkpoint.tokenizer, run.settings.conversation)
    prompt_ids += [token for token, _ in run.settings.given]
    picture = mask_picture.of_pass(run, number - 1, checkpoint.token_name, prompt_ids, checkpoint.mask_id)
    words = f"Forward {number} of “{run.settings.prompt}”: {len(picture.rows)} positions computed."
    return Shown(picture, words, *lens_picture.recorded(step), step.accepted), len(prompt_ids)


def lens_of(run: Run, number: int) -> str:
    """Return the lens of a forward of a recorded run, or the reason why there is none."""
    return _lens(_of_run(run, number)[0], run.settings.model)


def _controls(picture, checkpoint, prompt_tokens: int, lens: bool) -> dict[str, dict]:
    """Return updates of the controls that describe a forward's picture.

    They are inexact if the tokenizer splits the text into other tokens than the model wrote.
    """
    streams = [cell.stream for cell in picture.rows]
    groups = [cell.block for cell in picture.rows if cell.stream == "group"]
    new, drafts = streams.count("new"), streams.count("draft")
    ids = [*picture.past, *picture.layout.ids[0, : new + drafts].tolist()]
    values = {
        "sentence": checkpoint.tokenizer.decode(ids),
        "model": checkpoint.name,
        "kind": picture.kind,
        "length": min(max(len(ids), 4), MAX_TOKENS),
        "prompt": prompt_tokens,
        "new": new if picture.kind == "window" else drafts,
        "block_size": groups.count(groups[0]) if groups else streams.count("mask"),
        "random_phase": False,
        "look": False,
        "layer": 1,
        "head": 0,
        "lens": lens,
    }
    return _updates(values)


def share(block_size: float):
    return plots.ar_share(range(1, 17), max(1, int(block_size)))


# ------------------------------------------------------------------------------------- the page


class Controls:
    """The controls beside the picture, an attribute for each of `SETTINGS`."""

    def __init__(self):
        self.kind = gr.Dropdown([("MARS training", "mars")], label="Show the mask of", elem_id="kind")
        self.sentence = gr.Textbox(SENTENCE, label="Sentence", lines=2, elem_id="sentence")
        self.length = gr.Slider(4, MAX_TOKENS, 20, step=1, label="Tokens, at most", elem_id="length")
        self.prompt = gr.Slider(1, 18, 8, step=1, label="Prompt length (tokens)", elem_id="prompt-length")
        self.new = gr.Slider(
            0, MAX_DRAFTS, 2, step=1, label="Drafts", interactive=False, elem_id="new-tokens"
        )
        self.block_size = gr.Slider(1, MAX_MASKS, 4, step=1, label="Block size B", elem_id="block-size")
        self.random_phase = gr.Checkbox(False, label="Random block phase", elem_id="random-phase")
        self.look = gr.Checkbox(False, label="Show the model's attention", elem_id="attention")
        self.layer = gr.Slider(1, 4, 1, step=1, label="Layer", interactive=False, elem_id="layer")
        self.head = gr.Slider(0, 4, 0, step=1, label="Head (0: mean)", interactive=False, elem_id="head")
        self.lens = gr.Checkbox(False, label="Show each layer's prediction", elem_id="look-inside")
        self.model = model_list("mask-model")

    def __getitem__(self, names: tuple[str, ...]) -> list:
        return [getattr(self, name) for name in names]


def remember(open: bool = False) -> str:
    """Return the script that writes the settings into the URL."""
    return call("writeMask", {"names": SETTINGS, "longest": LONGEST_SENTENCE, "open": open})


def build(page: Page, tab: gr.Tab) -> None:
    """Build the tab's components and events; the stage of the Race tab can send a forward here."""
    gr.Markdown(INTRODUCTION, elem_classes="intro")
    with gr.Row():
        with gr.Column(scale=2, min_width=280):
            c = Controls()
        with gr.Column(scale=7, min_width=640):
            grid = Drawing("grid")
            lens = Drawing("lens")
            gr.Markdown("### Share of AR-like training signal")
            shares = gr.Plot(show_label=False)

    settings, dependent, pictures = c[SETTINGS], c[DEPENDENT], [grid, lens]
    sent = gr.State(None)  # a `Sent`
    share_of_size = (share, c.block_size, shares)
    tab.select(opened, [grid, *settings], [*settings, *pictures], **QUIET).then(*share_of_size, **QUIET)
    # A `change` event, because pasting a text fires no `input` event.
    given = [sent, *settings]
    c.sentence.change(adjust_unless_drawn, given, [*dependent, *pictures], **LIVE)
    others = c["model", "kind", "length", "look"]
    gr.on([one.input for one in others], adjust, given, [*dependent, *pictures], **LIVE)
    gr.on([one.input for one in (*dependent, c.lens)], see, given, pictures, **LIVE)
    gr.on([one.change for one in settings], None, settings, None, js=remember(), **QUIET)
    c.block_size.release(*share_of_size, **QUIET)
    page.stage.mask(show_pass, c.lens, [*settings, sent, *pictures, page.tabs], **QUIET).then(
        None, settings, None, js=remember(open=True), **QUIET
    )
