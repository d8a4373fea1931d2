"""The choice of the model that races: its loading state, modes and examples."""

import json

import gradio as gr

from mars_demo.core.assets import read_json
from mars_demo.core.modes import OPENING, modes_of
from mars_demo.ui.controls import LIVE, QUIET
from mars_demo.ui.drawing import Drawing
from mars_demo.ui.examples import EXAMPLES, examples_for, with_shape
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.race_settings import MODES, model_in_url

OTHERS = """`python app.py --model OWNER/NAME` serves other models too, such as the paper's
`Xalphinions/MARS-Qwen2.5-0.5B-blk8`."""


class ModeChoice(gr.CheckboxGroup):
    """A choice of modes that accepts modes before they are listed, which Gradio would reject.

    A recorded run or a point of the frontier sets its modes before the modes of its model are known.
    """

    is_template = True  # drawn as a CheckboxGroup

    def preprocess(self, payload: list[str]) -> list[str]:
        return [mode for mode in payload if mode in MODES.values()]


class ModelChoice:
    """The components that depend on the chosen model.

    example: the controls of an example: the prompt, its shape and its grammar.
    """

    def __init__(self, model: gr.Dropdown, modes: list[str], example: list[gr.Component]):
        self.example = example
        with gr.Column(elem_id="examples"):
            listed = samples(MODELS.names()[0])
            self.examples = gr.Dataset(label="Examples", components=["textbox"], **listed)
        self.model = model
        self.model.render()
        self.facts = Drawing("facts")
        self.asking = gr.Timer(0.5)
        self.modes = ModeChoice(
            [(title, name) for title, name in MODES.items() if name in modes_of("mars")],
            value=modes,
            label="Compare AR with",
            info="AR (autoregressive) writes one token per forward.",
            elem_id="mode",
        )

    def connect(self, arrived) -> None:
        """Connect the events. arrived: the event after which the models are listed."""
        arrived.then(list_models, None, self.model, **QUIET)  # waits until the model code is imported
        self.model.change(introduce, self.model, [self.model, self.asking], **QUIET)
        followed = [self.facts, self.modes, self.asking]
        self.asking.tick(follow_loading, [self.model, self.modes], followed, **QUIET)
        self.model.change(show_examples, self.model, self.examples, **QUIET)
        self.examples.click(choose_example, self.examples, self.example, **QUIET)
        self.model.input(replace_example, [self.model, self.example[0]], self.example, **LIVE)


def list_models(request: gr.Request):
    """List the models; choose that of the URL."""
    return gr.Dropdown(choices=MODELS.choices(), value=model_in_url(request))


def introduce(model: str | None):
    """Begin to load a model; show its description."""
    if model is None:
        return [gr.skip()] * 2
    MODELS.begin(model)
    about = read_json("models.json").get(model, "")
    return gr.Dropdown(info=f"{about} {OTHERS}".strip()), gr.Timer(active=True)


def follow_loading(model: str | None, chosen: list[str]):
    """Show the loading state and the modes of the chosen model; stop the timer when loading has ended."""
    if model is None:
        return [gr.skip()] * 3
    member = MODELS.member(model)
    shown = member.facts.shown if member.facts else []
    state = {"phase": member.phase, "problem": member.problem, "facts": shown}
    loading = member.phase not in ("ready", "failed")
    return json.dumps(state), mode_choices(model, chosen), gr.Timer(active=loading)


def mode_choices(model: str, chosen: list[str]):
    """Offer the model's modes; the chosen ones among them stay chosen."""
    facts = MODELS.member(model).facts
    if facts is None:
        return gr.skip()
    has = facts.modes
    choices = [(title, name) for title, name in MODES.items() if name in has]
    kept = [name for name in chosen if name in has]
    if kept and kept == chosen:  # no value: the visitor may have chosen other modes meanwhile
        return gr.CheckboxGroup(choices)
    opening = [name for name in OPENING if name in has]
    return gr.CheckboxGroup(choices, value=kept or opening or [name for _, name in choices][:1])


def samples(model: str) -> dict:
    """Return the settings of a dataset of the examples that suit a model."""
    examples = examples_for(model)
    return {
        "samples": [[example["prompt"]] for example in examples],
        "sample_labels": [example["title"] for example in examples],
        "samples_per_page": len(examples),
    }


def show_examples(model: str):
    """List the examples that suit a model."""
    return gr.Dataset(**samples(model))


def choose_example(sample: list[str]) -> tuple:
    """Set the prompt and the shape of the answer to those of an example."""
    return with_shape(sample[0])


def replace_example(model: str, prompt: str):
    """Replace the prompt if it is an example for another model."""
    own = [example["prompt"] for example in examples_for(model)]
    every = [example["prompt"] for examples in EXAMPLES.values() for example in examples]
    return with_shape(own[0]) if prompt in every and prompt not in own else gr.skip()
