"""The Mask tab: what each position sees, in training and in each forward of decoding."""

import json
from dataclasses import replace
from typing import NamedTuple

import gradio as gr

from mars_demo.decoding.trace import Run
from mars_demo.ui import models
from mars_demo.ui.components.grid import Grid
from mars_demo.ui.controls import LIVE, QUIET, model_list
from mars_demo.ui.gpu import on_gpu
from mars_demo.ui.scripts import script
from mars_demo.ui.tabs import Page

TITLE = "Mask"
SENTENCE = "Which city is the capital of Latvia? The capital of Latvia is Riga."
INTRODUCTION = """
Each row is a position that the model computes; a filled cell is a position that it **sees**. In training,
the **clean stream** is the text itself and the **noisy stream** holds the masks, in blocks of B. In
decoding, one **forward** (a pass through the model) computes the rows; everything else is in the cache.
"""
MAX_TOKENS = 128
MAX_MASKS = MAX_DRAFTS = 16
LONGEST_SENTENCE = 2048  # bytes of a sentence in the address
DEPENDENT = ("prompt", "new", "block_size", "random_phase", "layer", "head")
NUMBERS = ("length", "prompt", "new", "block_size", "layer", "head")


class Settings(NamedTuple):
    """The values of the controls."""

    sentence: str
    model: str
    kind: str  # of `mask_picture.KINDS`
    length: float
    prompt: float
    new: float
    block_size: float
    random_phase: bool
    look: bool
    layer: float
    head: float

    def ids(self) -> list[int]:
        """The first tokens of the sentence. The names of special tokens are read as these: nothing is
        generated from it, and a forward that the stage sends has the chat template in it.

        Raises:
            ValueError: if there are too few.
        """
        tokenizer = models.load(self.model).tokenizer
        ids = tokenizer(self.sentence, add_special_tokens=False)["input_ids"][: int(self.length)]
        if len(ids) < 4:
            raise ValueError("The sentence is too short for a picture; write at least four tokens.")
        return ids


SETTINGS = Settings._fields

_attention = {}


# ----------------------------------------------------------------------------------- the picture


def see(*settings):
    """The picture of a sentence's layout."""
    chosen = Settings(*settings)
    try:
        picture, words = _picture(chosen)
        if chosen.look:
            picture = _with_attention(picture, chosen.model, int(chosen.layer) - 1, int(chosen.head) - 1)
    except ValueError as error:
        return _trouble(error)
    return picture.line(words)


def _trouble(error: Exception) -> str:
    """In place of a picture; a warning of Gradio's would need the queue, which is too slow for a slider."""
    return json.dumps({"trouble": str(error)})


def _kinds() -> dict:
    from mars_demo.views.mask_picture import KINDS  # imports torch, which the page is there before

    return KINDS


def _picture(chosen: Settings):
    """The picture of a layout, and its size in words."""
    from mars_demo.views.mask_picture import Sentence

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
        f"the paper's whole copy computes 2L = {2 * tokens}."
    )


def _with_attention(picture, model: str, layer: int, head: int):
    """The picture with what the model attends to; head -1 is the mean of all."""
    return replace(picture, weights=_weights(model, picture.layout, picture.past, layer, head))


@on_gpu(lambda *_: 5)
def _weights(model: str, layout, past: list[int], layer: int, head: int) -> list[list[float]]:
    from mars_demo.views.attention_weights import Attention

    checkpoint = models.load(model)
    if model not in _attention:
        _attention.clear()  # one copy at a time is enough
        _attention[model] = Attention(checkpoint.dense.model)
    attention = _attention[model]
    if not 0 <= layer < attention.layers or head >= attention.heads:
        raise ValueError(f"{model} has layers 1 to {attention.layers} and heads 1 to {attention.heads}.")
    weights = attention.weights(layout, past, layer, None if head < 0 else head)
    return [[round(weight, 4) for weight in row] for row in weights.tolist()]


# ---------------------------------------------------------------------------------- the controls


def ranges(*settings) -> dict[str, dict]:
    """What a setting may be, given the others: the updates of the controls that depend on another one."""
    chosen = Settings(*settings)
    config = models.load(chosen.model).model.config
    try:
        tokens = len(chosen.ids())
    except ValueError:  # the picture says that the sentence is too short
        tokens = 4
    training, window = _kinds()[chosen.kind].trains, chosen.kind == "window"

    def slider(value: float, least: int, most: int, **more) -> dict:
        return {"minimum": least, "maximum": most, "value": min(max(value, least), most)} | more

    masks = "Block size B" if training else "Masks" if window else "Masks per group"
    most = tokens if window else min(MAX_DRAFTS, tokens - 1)
    return {
        "prompt": slider(chosen.prompt, 1, tokens - 2, interactive=training),
        "new": slider(
            chosen.new,
            int(window),
            most,
            label="New tokens before the masks" if window else "Drafts",
            interactive=not training,
        ),
        "block_size": slider(
            chosen.block_size, int(training), MAX_MASKS, label=masks, interactive=chosen.kind != "ar"
        ),
        "random_phase": {"interactive": chosen.kind in ("mars", "block-diffusion")},
        "layer": slider(chosen.layer, 1, config.num_hidden_layers, interactive=chosen.look),
        "head": slider(chosen.head, 0, config.num_attention_heads, interactive=chosen.look),
    }


def adjust(*settings):
    """After a setting that others depend on: their ranges, and the picture."""
    updates = ranges(*settings)
    values = dict(zip(SETTINGS, settings)) | {
        name: update["value"] for name, update in updates.items() if "value" in update
    }
    return *(gr.update(**update) for update in updates.values()), see(*values.values())


def adjust_unless_drawn(drawn: str | None, sentence: str, *settings):
    """The same when the sentence has changed; the one of a forward that the stage sent is drawn already."""
    return [gr.skip()] * (len(DEPENDENT) + 1) if sentence == drawn else adjust(sentence, *settings)


def opened(shown: str, request: gr.Request, *settings):
    """When the tab is opened for the first time: the models to choose from, the settings that the page's
    address names, and their picture. One that is there already, sent by the stage say, stays."""
    if shown:
        return [gr.skip()] * (len(SETTINGS) + 1)
    names = models.names()
    values = dict(zip(SETTINGS, settings)) | {"model": next(iter(names), None)} | _asked(request, names)
    updates = {name: {"value": value} for name, value in values.items()} | ranges(*values.values())
    updates["random_phase"] |= {"value": values["random_phase"]}
    updates["model"] |= {"choices": names}
    updates["kind"] |= {"choices": _titles()}
    values |= {name: update["value"] for name, update in updates.items()}
    return *(gr.update(**updates[name]) for name in SETTINGS), see(*values.values())


def _titles() -> list[tuple[str, str]]:
    return [(kind.title, name) for name, kind in _kinds().items()]


def _asked(request: gr.Request, names: list[str]) -> dict:
    """The settings that an address names, those of them that make sense."""
    query = {name: request.query_params.get(f"mask_{name}") for name in SETTINGS}
    found = {name: int(query[name]) for name in NUMBERS if (query[name] or "").isdecimal()}
    if "length" in found:
        found["length"] = min(max(found["length"], 4), MAX_TOKENS)
    allowed = {"kind": list(_kinds()), "model": names, "sentence": [query["sentence"] or None]}
    found |= {
        name: query[name] for name, values in allowed.items() if query[name] in values and query[name]
    }
    return found | {name: True for name in ("random_phase", "look") if query[name] == "true"}


def show_pass(asked: gr.EventData):
    """The mask of a forward that the stage shows: its run's record, and the forward's number. The controls
    are set to what is drawn."""
    try:
        from mars_demo.models.chat import encode_prompt
        from mars_demo.views import mask_picture

        run = Run.read(str(asked.record).splitlines())
        number = int(asked.number)
        if not 1 <= number <= run.forwards:
            raise ValueError(f"The record has no forward {number}.")
        checkpoint = models.load(run.settings.model)
        prompt_ids = encode_prompt(checkpoint.tokenizer, run.settings.conversation)
        picture = mask_picture.of_pass(
            run, number - 1, checkpoint.token_name, prompt_ids, checkpoint.mask_id
        )
    except (ValueError, TypeError, AttributeError) as error:
        return *[gr.skip()] * (len(SETTINGS) + 1), _trouble(error), gr.Tabs(selected="mask")
    words = f"Forward {number} of “{run.settings.prompt}”: {len(picture.rows)} positions computed."
    updates = _controls(picture, checkpoint, len(prompt_ids))
    return (
        *(gr.update(**updates[name]) for name in SETTINGS),
        updates["sentence"]["value"],
        picture.line(words),
        gr.Tabs(selected="mask"),
    )


def _controls(picture, checkpoint, prompt_tokens: int) -> dict[str, dict]:
    """The updates of the controls with which a forward's picture is drawn, but for what the tokenizer reads
    in other tokens than the model wrote."""
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
    }
    updates = {name: {"value": value} for name, value in values.items()}
    for name, update in ranges(*values.values()).items():
        updates[name] |= update
    names = models.names()
    updates["model"]["choices"] = names if checkpoint.name in names else [*names, checkpoint.name]
    updates["kind"]["choices"] = _titles()
    return updates


def share(block_size: float):
    from mars_demo.views import plots

    return plots.ar_share(range(1, 17), max(1, int(block_size)))


# ------------------------------------------------------------------------------------- the page


class Controls:
    """What stands beside the picture, an attribute for each of `SETTINGS`."""

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
        self.model = model_list("mask-model")

    def __getitem__(self, names: tuple[str, ...]) -> list:
        return [getattr(self, name) for name in names]


def remember(open: bool = False) -> str:
    """The script that writes the settings into the address."""
    return script("tabs/mask.js", {"names": SETTINGS, "longest": LONGEST_SENTENCE, "open": open})


def build(page: Page, tab: gr.Tab) -> None:
    """The tab's components and events; the race's stage can send a forward here."""
    gr.Markdown(INTRODUCTION, elem_classes="intro")
    with gr.Row():
        with gr.Column(scale=2, min_width=280):
            c = Controls()
        with gr.Column(scale=7, min_width=640):
            grid = Grid()
            gr.Markdown("### How much of the training signal is AR-like")
            shares = gr.Plot(show_label=False)

    settings, dependent = c[SETTINGS], c[DEPENDENT]
    drawn = gr.State(None)  # the sentence of a forward that the stage has sent
    share_of_size = (share, c.block_size, shares)
    tab.select(opened, [grid, *settings], [*settings, grid], **QUIET).then(*share_of_size, **QUIET)
    # A text that is pasted changes without an input event.
    c.sentence.change(adjust_unless_drawn, [drawn, *settings], [*dependent, grid], **LIVE)
    others = c["model", "kind", "length", "look"]
    gr.on([one.input for one in others], adjust, settings, [*dependent, grid], **LIVE)
    gr.on([one.input for one in dependent], see, settings, grid, **LIVE)
    gr.on([one.change for one in settings], None, settings, None, js=remember(), **QUIET)
    c.block_size.release(*share_of_size, **QUIET)
    page.stage.mask(show_pass, None, [*settings, drawn, grid, page.tabs], **QUIET).then(
        None, settings, None, js=remember(open=True), **QUIET
    )
