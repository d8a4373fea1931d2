"""The Mask tab: the attention mask of training and of each forward of decoding."""

import json

import gradio as gr

from mars_demo.show.scripts import call
from mars_demo.ui.controls import LIVE, QUIET
from mars_demo.ui.drawing import Drawing
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.mask_settings import (
    DEPENDENT,
    LEAST_TOKENS,
    MOST_DRAFTS,
    MOST_MASKS,
    MOST_TOKENS,
    SETTINGS,
    MaskSettings,
    Sent,
)
from mars_demo.ui.masks import of_pass
from mars_demo.ui.stage import read_one
from mars_demo.ui.tabs import Page

TITLE = "Mask"
INTRODUCTION = """
Each row is a position that the model computes; a filled cell is a position that it **sees**. In training,
the **clean stream** is the text itself and the **noisy stream** holds the masks, in blocks of B. In
decoding, one **forward** (a pass through the model) computes the rows; everything else is in the cache.
"""
LONGEST_SENTENCE = 2048  # bytes of a sentence in the URL


# --------------------------------------------------------------------------------- event handlers


def see(sent: Sent | None, *settings) -> str:
    """Return the picture of the sent forward, if the settings are still its own, or of the sentence."""
    return _see(sent, MaskSettings(*settings))


def _see(sent: Sent | None, chosen: MaskSettings) -> str:
    try:
        return sent.line if sent and sent.settings == chosen else chosen.mask().line()
    except ValueError as error:
        return _error_line(error)


def _error_line(error: ValueError) -> str:
    """Return an error message in place of a picture. Gradio's warnings need its queue: too slow here."""
    return json.dumps({"error": str(error)})


def adjust(sent: Sent | None, *settings):
    """Return the ranges that depend on the settings, and the picture."""
    chosen = MaskSettings(*settings)
    return *(gr.update(**update) for update in chosen.ranges().values()), _see(sent, chosen.fitted())


def adjust_unless_drawn(sent: Sent | None, sentence: str, *settings):
    """Do the same for a new sentence; skip that of a sent forward, before its other settings arrive."""
    if sent and sentence == sent.settings.sentence:
        return [gr.skip()] * (len(DEPENDENT) + 1)
    return adjust(sent, sentence, *settings)


def open_mask(shown: str, request: gr.Request):
    """Fill the tab when it is first opened, with the settings in the URL and their picture.

    A forward from the stage stays.
    """
    if shown:
        return [gr.skip()] * (len(SETTINGS) + 1)
    chosen = MaskSettings(model=MODELS.names()[0]).with_query(request.query_params).fitted()
    return *chosen.updates(), _see(None, chosen)


def show_pass(event: gr.EventData):
    """Draw the mask of a forward from the stage, and set the controls to it.

    event: its run's `record`, and its `number`.
    """
    try:
        run = read_one(event.record)
        mask = of_pass(run, event.number, MODELS.load(run.settings.model))
    except ValueError as error:
        unchanged = [gr.skip()] * (len(SETTINGS) + 1)
        return *unchanged, _error_line(error), gr.Tabs(selected="mask")
    settings, line = MaskSettings.of_forward(mask, run.settings.model).fitted(), mask.line()
    return *settings.updates(), Sent(settings, line), line, gr.Tabs(selected="mask")


# ------------------------------------------------------------------------------------- the page


class MaskControls:
    """The controls beside the picture, an attribute for each of `SETTINGS`."""

    def __init__(self):
        first = MaskSettings()
        self.kind = gr.Dropdown([("MARS training", first.kind)], label="Show the mask of", elem_id="kind")
        self.sentence = gr.Textbox(first.sentence, label="Sentence", lines=2, elem_id="sentence")
        self.length = gr.Slider(
            LEAST_TOKENS, MOST_TOKENS, first.length, step=1, label="Tokens, at most", elem_id="length"
        )
        self.prompt = gr.Slider(
            1, 18, first.prompt, step=1, label="Prompt length (tokens)", elem_id="prompt-length"
        )
        self.new = gr.Slider(
            0, MOST_DRAFTS, first.new, step=1, label="Drafts", interactive=False, elem_id="new-tokens"
        )
        self.block_size = gr.Slider(
            1, MOST_MASKS, first.block_size, step=1, label="Block size B", elem_id="block-size"
        )
        self.random_phase = gr.Checkbox(False, label="Random block phase", elem_id="random-phase")
        self.model = gr.Dropdown([], label="Model", elem_id="mask-model")

    def __getitem__(self, names: tuple[str, ...]) -> list:
        return [getattr(self, name) for name in names]


def remember() -> str:
    """Return the script that writes the settings into the URL."""
    return call("writeMask", {"names": SETTINGS, "longest": LONGEST_SENTENCE})


def build(page: Page, tab: gr.Tab) -> None:
    """Build the tab's components and events; the stage of the Race tab can send a forward here."""
    gr.Markdown(INTRODUCTION, elem_classes="intro")
    with gr.Row():
        with gr.Column(scale=2, min_width=280):
            c = MaskControls()
        with gr.Column(scale=7, min_width=640):
            grid = Drawing("grid")

    settings, dependent = c[SETTINGS], c[DEPENDENT]
    sent = gr.State(None)  # a `Sent`
    tab.select(open_mask, grid, [*settings, grid], **QUIET)
    # A `change` event, because pasting a text fires no `input` event.
    given = [sent, *settings]
    c.sentence.change(adjust_unless_drawn, given, [*dependent, grid], **LIVE)
    others = c["model", "kind", "length"]
    gr.on([control.input for control in others], adjust, given, [*dependent, grid], **LIVE)
    gr.on([control.input for control in dependent], see, given, grid, **LIVE)
    gr.on([control.change for control in settings], None, settings, None, js=remember(), **QUIET)
    shown = page.stage.mask(show_pass, None, [*settings, sent, grid, page.tabs], **QUIET)
    shown.then(None, settings, None, js=remember(), **QUIET)
