"""The Mask tab: what each position sees, in training and in each forward of decoding."""

import json
from dataclasses import replace

import gradio as gr

from mars_demo.trace import Run
from mars_demo.ui import models
from mars_demo.ui.grid import Grid

SENTENCE = "Which city is the capital of Latvia? The capital of Latvia is Riga."
MAX_TOKENS = 128
MAX_MASKS = MAX_DRAFTS = 16
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


# ----------------------------------------------------------------------------------- the picture


def see(
    sentence: str,
    model: str,
    kind: str,
    length: float,
    prompt: float,
    new: float,
    block_size: float,
    random_phase: bool,
    look: bool,
    layer: float,
    head: float,
):
    """The picture of a sentence's layout."""
    try:
        sizes = (int(value) for value in (prompt, new, block_size))
        picture, words = _picture(_ids(sentence, model, length), model, kind, *sizes, random_phase)
        if look:
            picture = _with_attention(picture, model, int(layer) - 1, int(head) - 1)
    except ValueError as error:
        return _trouble(error)
    return picture.line(words)


def _trouble(error: Exception) -> str:
    """In place of a picture; a warning of Gradio's would need the queue, which is too slow for a slider."""
    return json.dumps({"trouble": str(error)})


def _ids(sentence: str, model: str, length: float) -> list[int]:
    """The first tokens of a sentence. The names of special tokens are read as these: nothing is generated
    from it, and a forward that the stage sends has the chat template in it."""
    tokenizer = models.load(model).tokenizer
    ids = tokenizer(sentence, add_special_tokens=False)["input_ids"][: int(length)]
    if len(ids) < 4:
        raise ValueError("The sentence is too short for a picture; write at least four tokens.")
    return ids


def _picture(
    ids: list[int], model: str, kind: str, prompt: int, new: int, block_size: int, random_phase: bool
):
    from mars_demo import pictures

    checkpoint = models.load(model)
    mask_id = checkpoint.tokenizer.pad_token_id if checkpoint.mask_id is None else checkpoint.mask_id
    name = checkpoint.token_name
    if kind in TRAINING:
        prompt = min(prompt, len(ids) - 2)
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
    drafts = 0 if kind == "window" else min(new, len(ids) - 1)
    cached = len(ids) - (min(new, len(ids)) if kind == "window" else drafts + 1)
    picture = pictures.inference(kind, ids, cached, block_size, drafts, mask_id, name)
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


# ---------------------------------------------------------------------------------- the controls


def ranges(
    sentence: str,
    model: str,
    kind: str,
    length: float,
    prompt: float,
    new: float,
    block_size: float,
    random_phase: bool,
    look: bool,
    layer: float,
    head: float,
) -> dict[str, dict]:
    """What a setting may be beside the others: the updates of the controls that depend on another one."""
    config = models.load(model).model.config
    try:
        tokens = len(_ids(sentence, model, length))
    except ValueError:  # the picture says that the sentence is too short
        tokens = 4
    training, window = kind in TRAINING, kind == "window"

    def slider(value: float, least: int, most: int, **more) -> dict:
        return {"minimum": least, "maximum": most, "value": min(max(value, least), most)} | more

    masks = "Block size B" if training else "Masks" if window else "Masks per group"
    most = tokens if window else min(MAX_DRAFTS, tokens - 1)
    return {
        "prompt": slider(prompt, 1, tokens - 2, interactive=training),
        "new": slider(
            new,
            int(window),
            most,
            label="New tokens before the masks" if window else "Drafts",
            interactive=not training,
        ),
        "block_size": slider(block_size, int(training), MAX_MASKS, label=masks, interactive=kind != "ar"),
        "random_phase": {"interactive": kind in ("mars", "block-diffusion")},
        "layer": slider(layer, 1, config.num_hidden_layers, interactive=look),
        "head": slider(head, 0, config.num_attention_heads, interactive=look),
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


SETTINGS = (
    "sentence",
    "model",
    "kind",
    "length",
    "prompt",
    "new",
    "block_size",
    "random_phase",
    "look",
    "layer",
    "head",
)
DEPENDENT = ("prompt", "new", "block_size", "random_phase", "layer", "head")
NUMBERS = ("length", "prompt", "new", "block_size", "layer", "head")


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
    values |= {name: update["value"] for name, update in updates.items()}
    return *(gr.update(**updates[name]) for name in SETTINGS), see(*values.values())


def _asked(request: gr.Request, names: list[str]) -> dict:
    """The settings that an address names, those of them that make sense."""
    query = {name: request.query_params.get(f"mask_{name}") for name in SETTINGS}
    found = {name: int(query[name]) for name in NUMBERS if (query[name] or "").isdecimal()}
    if "length" in found:
        found["length"] = min(max(found["length"], 4), MAX_TOKENS)
    allowed = {"kind": list(KINDS.values()), "model": names, "sentence": [query["sentence"] or None]}
    found |= {
        name: query[name] for name, values in allowed.items() if query[name] in values and query[name]
    }
    return found | {name: True for name in ("random_phase", "look") if query[name] == "true"}


def show_pass(asked: gr.EventData):
    """The mask of a forward that the stage shows: its run's record, and the forward's number. The controls
    are set to what is drawn."""
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
    return updates


def share(block_size: float):
    from mars_demo import figures

    return figures.ar_share(range(1, 17), max(1, int(block_size)))


# ------------------------------------------------------------------------------------- the page

# Runs in the browser after every change of a control, while the tab is open. A sentence that would make the
# address too long for some servers stays out of it.
REMEMBER = """(...values) => {
  const names = NAMES;
  clearTimeout(window.rememberingMask);
  window.rememberingMask = setTimeout(() => {
    const query = new URLSearchParams(location.search);
    if (query.get("tab") !== "mask") return;
    names.forEach((name, index) => {
      const text = String(values[index] ?? "");
      if (new TextEncoder().encode(text).length < 2048) query.set(`mask_${name}`, text);
      else query.delete(`mask_${name}`);
    });
    history.replaceState(history.state, "", `?${query}`);
  }, 250);
}""".replace("NAMES", json.dumps(SETTINGS))
# A tab that Python opens does not tell the page that it was selected.
REMEMBER_TAB = f"""(...values) => {{
  const query = new URLSearchParams(location.search);
  query.set("tab", "mask");
  history.replaceState(history.state, "", `?${{query}}`);
  ({REMEMBER})(...values);
}}"""


def tab(tabs: gr.Tabs, page: gr.Tab, stage) -> None:
    """The tab's components and events; `stage` is the Race tab's, which can send a forward here."""
    with gr.Row():
        with gr.Column(scale=2, min_width=280):
            kind = gr.Dropdown(list(KINDS.items()), value="mars", label="Show the mask of", elem_id="kind")
            sentence = gr.Textbox(SENTENCE, label="Sentence", lines=2, elem_id="sentence")
            length = gr.Slider(4, MAX_TOKENS, 20, step=1, label="Tokens, at most", elem_id="length")
            prompt = gr.Slider(1, 18, 8, step=1, label="Prompt length (tokens)", elem_id="prompt-length")
            new = gr.Slider(
                0, MAX_DRAFTS, 2, step=1, label="Drafts", interactive=False, elem_id="new-tokens"
            )
            block_size = gr.Slider(1, MAX_MASKS, 4, step=1, label="Block size B", elem_id="block-size")
            random_phase = gr.Checkbox(False, label="Random block phase", elem_id="random-phase")
            look = gr.Checkbox(False, label="Show the model's attention", elem_id="attention")
            layer = gr.Slider(1, 4, 1, step=1, label="Layer", interactive=False, elem_id="layer")
            head = gr.Slider(0, 4, 0, step=1, label="Head (0: mean)", interactive=False, elem_id="head")
            model = gr.Dropdown([], label="Model", elem_id="mask-model")
        with gr.Column(scale=7, min_width=640):
            grid = Grid()
            gr.Markdown("### How much of the training signal is AR-like")
            shares = gr.Plot(show_label=False)

    quiet = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    live = {"trigger_mode": "always_last", **quiet}
    settings = [sentence, model, kind, length, prompt, new, block_size, random_phase, look, layer, head]
    dependent = [prompt, new, block_size, random_phase, layer, head]
    drawn = gr.State(None)  # the sentence of a forward that the stage has sent
    page.select(opened, [grid, *settings], [*settings, grid], **quiet).then(
        share, block_size, shares, **quiet
    )
    # A text that is pasted changes without an input event.
    sentence.change(adjust_unless_drawn, [drawn, *settings], [*dependent, grid], **live)
    gr.on([c.input for c in (model, kind, length, look)], adjust, settings, [*dependent, grid], **live)
    gr.on([c.input for c in dependent], see, settings, grid, **live)
    gr.on([c.change for c in settings], None, settings, None, js=REMEMBER, **quiet)
    block_size.release(share, block_size, shares, **quiet)
    stage.mask(show_pass, None, [*settings, drawn, grid, tabs], **quiet).then(
        None, settings, None, js=REMEMBER_TAB, **quiet
    )
