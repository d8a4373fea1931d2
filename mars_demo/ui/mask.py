"""The Mask tab: who sees whom, in training and in each forward of decoding."""

import json
from dataclasses import replace

import gradio as gr

from mars_demo.trace import Run
from mars_demo.ui import models
from mars_demo.ui.grid import Grid

SENTENCE = "Which city is the capital of Latvia? The capital of Latvia is Riga."
MAX_TOKENS = 128
KINDS = {
    "MARS training": "mars",
    "AR training": "ar",
    "Block diffusion training": "block-diffusion",
    "Window of a forward": "window",
    "Lossless: drafts and groups of masks": "verification",
    "Lossless, linear": "linear",
    "Speculative decoding with MARS": "speculative",
}
TRAINING = ("mars", "ar", "block-diffusion")

_attention = {}


def see(
    sentence: str,
    model: str,
    kind: str,
    length: float,
    prompt: float,
    block_size: float,
    random_phase: bool,
    look: bool,
    layer: float,
    head: float,
):
    """The picture of a sentence's layout."""
    try:
        picture, words = _picture(
            sentence, model, kind, int(length), int(prompt), int(block_size), random_phase
        )
        if look:
            picture = _with_attention(picture, model, int(layer) - 1, int(head) - 1)
    except ValueError as error:
        return _trouble(error)
    return picture.line(words)


def _trouble(error: Exception) -> str:
    """In place of a picture; a warning of Gradio's would need the queue, which is too slow for a slider."""
    return json.dumps({"trouble": str(error)})


def _picture(
    sentence: str, model: str, kind: str, length: int, prompt: int, block_size: int, random_phase: bool
):
    from mars_demo import pictures

    checkpoint = models.load(model)
    tokenizer = checkpoint.tokenizer
    ids = tokenizer(sentence, add_special_tokens=False, split_special_tokens=True)["input_ids"][:length]
    if len(ids) < 4:
        raise ValueError("The sentence is too short for a picture; write at least four tokens.")
    mask_id = tokenizer.pad_token_id if checkpoint.mask_id is None else checkpoint.mask_id
    name = checkpoint.token_name

    prompt = min(prompt, len(ids) - 2)
    if kind in TRAINING:
        seed = len(ids) if random_phase else None
        picture = pictures.training(kind, ids, prompt, block_size, seed, mask_id, name)
        answer = len(ids) - prompt
        words = f"{len(ids)} clean and {len(picture.rows) - len(ids)} noisy positions."
        if kind == "mars":
            words += (
                f" With L = {len(ids)} tokens, R = {answer} of them the answer, that is about L + R; "
                f"the paper's whole copy computes 2L = {2 * len(ids)}."
            )
        return picture, words
    if kind == "window":
        cached = len(ids) - 2
        picture = pictures.inference(kind, ids, cached, block_size, 0, mask_id, name)
    else:
        drafts = min(block_size, 4, len(ids) - 2)
        cached = len(ids) - drafts - 1
        picture = pictures.inference(kind, ids, cached, drafts, drafts, mask_id, name)
    return picture, f"{len(picture.rows)} positions computed in one forward, {cached} in the cache."


def _with_attention(picture, model: str, layer: int, head: int):
    """The picture with what the model attends to; head -1 is the mean of all."""
    from mars_demo.attention import Attention

    checkpoint = models.load(model)
    if model not in _attention:
        _attention.clear()  # one copy at a time is enough
        _attention[model] = Attention(checkpoint.model)
    attention = _attention[model]
    if not 0 <= layer < attention.layers or head >= attention.heads:
        raise ValueError(f"{model} has layers 1 to {attention.layers} and heads 1 to {attention.heads}.")
    weights = attention.weights(picture.layout, picture.past, layer, None if head < 0 else head)
    rounded = [[round(weight, 4) for weight in row] for row in weights.tolist()]
    return replace(picture, weights=rounded)


def show_pass(asked: gr.EventData):
    """The mask of a forward that the stage shows: its run's record, and the forward's number."""
    try:
        from mars_demo import pictures
        from mars_demo.chat import encode_prompt

        run = Run.read(str(asked.record).splitlines())
        number = int(asked.number)
        if not 1 <= number <= run.forwards:
            raise ValueError(f"The record has no forward {number}.")
        checkpoint = models.load(run.settings.model)
        prompt_ids = encode_prompt(checkpoint.tokenizer, run.settings.prompt)
        picture = pictures.of_pass(run, number - 1, checkpoint.token_name, prompt_ids, checkpoint.mask_id)
    except (ValueError, TypeError, AttributeError) as error:
        return _trouble(error), gr.Tabs(selected="mask")
    words = f"Forward {number} of “{run.settings.prompt}”: {len(picture.rows)} positions computed."
    return picture.line(words), gr.Tabs(selected="mask")


def share(block_size: float):
    from mars_demo import figures

    return figures.ar_share(range(1, 17), int(block_size))


def offer(chosen: str | None):
    """The models to choose from; asked when the tab is opened, so that the page does not wait for it."""
    names = models.names()
    return gr.Dropdown(choices=names, value=chosen if chosen in names else next(iter(names), None))


def see_first(shown: str, *settings):
    """The picture when the tab is opened: what is there already, a forward sent by the stage say, stays."""
    return gr.skip() if shown else see(*settings)


def tab(tabs: gr.Tabs, page: gr.Tab, stage) -> None:
    """The tab's components and events; `stage` is the Race tab's, which can send a forward here."""
    with gr.Row():
        with gr.Column(scale=2, min_width=280):
            kind = gr.Dropdown(list(KINDS.items()), value="mars", label="Who sees whom in", elem_id="kind")
            sentence = gr.Textbox(SENTENCE, label="Sentence", lines=2, elem_id="sentence")
            length = gr.Slider(4, MAX_TOKENS, 20, step=1, label="Tokens, at most", elem_id="length")
            prompt = gr.Slider(1, 64, 8, step=1, label="Of these the question")
            block_size = gr.Slider(1, 16, 4, step=1, label="Block size B", elem_id="block-size")
            random_phase = gr.Checkbox(False, label="Random block phase")
            look = gr.Checkbox(False, label="Show the model's attention", elem_id="attention")
            layer = gr.Slider(1, 30, 1, step=1, label="Layer")
            head = gr.Slider(0, 16, 0, step=1, label="Head (0: mean)")
            model = gr.Dropdown([], label="Model", elem_id="mask-model")
        with gr.Column(scale=7, min_width=640):
            grid = Grid()
            gr.Markdown("### How much of the training signal is AR-like")
            shares = gr.Plot(show_label=False)

    quiet = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    settings = [sentence, model, kind, length, prompt, block_size, random_phase, look, layer, head]
    page.select(offer, model, model, **quiet).then(see_first, [grid, *settings], grid, **quiet).then(
        share, block_size, shares, **quiet
    )
    # A text that is pasted changes without an input event.
    triggers = [sentence.change, *(c.input for c in settings[1:])]
    gr.on(triggers, see, settings, grid, trigger_mode="always_last", **quiet)
    block_size.release(share, block_size, shares, **quiet)
    stage.mask(show_pass, None, [grid, tabs], **quiet)
