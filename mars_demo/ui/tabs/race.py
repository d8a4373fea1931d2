"""The Race tab: a model races against itself on one prompt, one token per forward and in other modes."""

import secrets
from functools import partial

import gradio as gr

from mars_demo.core.limits import LIMITS
from mars_demo.core.modes import GUESSED_WINDOW, TAU_HINT
from mars_demo.decoding.request import Request
from mars_demo.evaluation.calibration import kept
from mars_demo.evaluation.frontier import Frontier
from mars_demo.show.scripts import call
from mars_demo.ui import api, race_settings
from mars_demo.ui.controls import (
    IN_BROWSER,
    LIVE,
    MAY_WARN,
    QUIET,
    SCORES,
    WITH_DATA,
    RunButtons,
    at_once,
    in_turns,
    tau_slider,
)
from mars_demo.ui.examples import with_shape
from mars_demo.ui.generation import DEFAULTS, of_grammar, of_record
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.knobs import FORWARDS_PER_SECOND, set_tau, set_watched
from mars_demo.ui.model_choice import ModelChoice
from mars_demo.ui.race_settings import MODES, first, in_url, known_races
from mars_demo.ui.racing import compete
from mars_demo.ui.shape_choice import ShapeChoice
from mars_demo.ui.stage import read_one
from mars_demo.ui.tabs import Page

TITLE = "Race"


# -------------------------------------------------------- requests of the stage and the frontier


def again(event: gr.EventData):
    """Set the prompt, τ and generation settings to those of a run's record.

    The event may have another `tau`.

    Raises:
        ValueError: if it is not the record of one run, or its prompt follows other messages.
    """
    settings = read_one(event.record).settings
    if settings.messages:
        raise ValueError("This run continues a conversation; only runs of a single prompt can be repeated.")
    generation = of_record(settings).shown()
    return settings.prompt, _threshold(event.tau), *generation.values(), _request()


def _request() -> str:
    return secrets.token_hex(8)


def _threshold(tau):
    """Return a τ for its control, which null and invalid values do not change."""
    return tau if isinstance(tau, int | float) and 0 <= tau <= 1 else gr.skip()


def put_example(event: gr.EventData):
    """Set the prompt and the shape of the answer to those of an example that the stage offers."""
    return with_shape(event.prompt)


def tau_help(model: str | None) -> str:
    """Return the help of the control of τ, with the model's measured agreement with AR, if there is one."""
    return f"Acts immediately. At 1, one token per forward. {TAU_HINT} {kept(model)}".strip()


def take(frontier: Frontier, title: str | None, prompt: str | None):
    """Open this tab with the model, mode, τ, criterion and shape of a point, keeping those that it lacks.

    Decoding is greedy. As in a sweep, every forward has the mode's default window; if prompts were raced
    alone, the window is chosen for each forward.

    Raises:
        gr.Error: if no point or no prompt is chosen.
    """
    point, model = frontier.named(title), frontier.model
    if point is None or not prompt:
        raise gr.Error("Choose a point and a prompt first.", print_exception=False)
    setting = point.setting
    generation = DEFAULTS | of_grammar(setting.grammar)
    if (is_raced := setting.mode in MODES.values()) and frontier.size > 1:
        generation["window"] = Request(setting.mode).fitted(MODELS.load(model)).window
    generation["criterion"] = setting.criterion or gr.skip()
    return (
        gr.Tabs(selected="race"),
        gr.Dropdown(choices=MODELS.choices(), value=model),
        [setting.mode] if is_raced else gr.skip(),
        _threshold(setting.tau),
        *generation.values(),
        prompt,
        _request(),
    )


# ------------------------------------------------------------------------------------- the page


class RaceControls:
    """The controls beside the stage."""

    def __init__(self, page: Page):
        _, modes, tau = first()
        self.prompt = page.text
        self.prompt.render()
        with gr.Column(elem_id="start"):
            self.buttons = RunButtons()
            self.watch = gr.Checkbox(
                race_settings.WATCH,
                label="Watch it write",
                info=f"{FORWARDS_PER_SECOND} forwards per second; timings exclude the pauses.",
                elem_id="watch",
                container=False,
            )
        self.tau = tau_slider("tau", tau, tau_help(MODELS.names()[0]))
        self.shaped = ShapeChoice()
        self.example = [self.prompt, self.shaped.shape, self.shaped.grammar]
        self.choice = ModelChoice(page.model, modes, self.example)
        self.model, self.modes = self.choice.model, self.choice.modes
        with gr.Accordion("Advanced", open=False, elem_id="advanced") as self.advanced:
            self.generation = [*_generation_controls(), *self.example[1:]]

    @property
    def settings(self) -> list:
        """The controls that the URL depends on, in the order of the inputs of `writeRace`."""
        return [self.prompt, self.model, self.modes, self.tau, self.watch, *self.generation]


def _generation_controls() -> list[gr.Component]:
    """Return the controls of the generation settings but for the shape, in the order of `DEFAULTS`."""
    controls = {
        "criterion": gr.Radio(
            SCORES,
            label="Score that τ is compared with",
            info="The paper's is the probability.",
        ),
        "window": gr.Slider(
            0,
            GUESSED_WINDOW,
            step=1,
            label="Window (slots)",
            info="0: chosen for each forward. AR has 1; each mode has its largest at most.",
        ),
        "max_new_tokens": gr.Slider(1, LIMITS.answer, step=1, label="Longest answer (new tokens)"),
        "temperature": gr.Slider(0, 2, step=0.05, label="Temperature", info="0: greedy decoding."),
        "top_p": gr.Slider(
            0.05,
            1,
            step=0.05,
            label="Top-p",
            info="Sample from the smallest set of tokens with this probability.",
        ),
        "seed": gr.Number(
            label="Seed",
            info="The same for every side, so lossless modes sample the answer of AR.",
            precision=0,
        ),
    }
    for name, control in controls.items():
        control.value, control.elem_id = DEFAULTS[name], name
    return [*controls.values()]


def build(page: Page, tab: gr.Tab) -> None:
    """Build the tab's components and events, and the function of the HTTP API."""
    with gr.Row(elem_id="race"):
        with gr.Column(scale=2, min_width=280, elem_id="controls"):
            controls = RaceControls(page)
        with gr.Column(scale=7, min_width=640):
            page.stage.render()
    page.requested.render()
    _fill(page, controls)
    _race(page, controls)
    gr.api(api.generate, api_name="generate", concurrency_id="model", concurrency_limit=at_once())


def _fill(page: Page, c: RaceControls) -> None:
    """Connect the events that set the controls or depend on them."""
    page.blocks.load(None, None, None, js=call("knowRaces", known_races()), **IN_BROWSER)
    # Registered first: Gradio's page waits for each handler of an event before it calls the next one, and a
    # later handler might change the URL meanwhile.
    changes = [control.change for control in c.settings]
    gr.on(changes, None, c.settings, None, js=call("writeRace", False), **IN_BROWSER)
    recorded = [c.prompt, c.modes, c.tau]
    c.choice.connect(
        page.blocks.load(in_url, None, [*recorded, c.watch, *c.generation, c.advanced], **QUIET)
    )
    followed = [*recorded, c.model, *c.generation]
    page.stage.recorded(None, None, followed, js=call("settingsOfRecording"), **IN_BROWSER)
    page.stage.example(put_example, None, c.example, **WITH_DATA)
    c.shaped.connect()
    c.model.change(lambda model: gr.Slider(info=tau_help(model)), c.model, c.tau, **QUIET)
    c.tau.input(set_tau, [c.buttons.knobs, c.tau], None, **LIVE)
    c.watch.input(set_watched, [c.buttons.knobs, c.watch], None, **LIVE)


def _race(page: Page, c: RaceControls) -> None:
    """Connect the events that start a race, or set the controls to those of a point of the frontier."""
    repeated = [c.prompt, c.tau, *c.generation, page.requested]
    page.stage.again(again, None, repeated, **MAY_WARN)
    chosen = [page.shown, page.point, page.prompt]
    outputs = [page.tabs, c.model, c.modes, c.tau, *c.generation, c.prompt, page.requested]
    page.race_prompt.click(take, chosen, outputs, **MAY_WARN)
    page.requested.change(None, None, None, js=call("showStage"), **IN_BROWSER)

    start = partial(gr.on, [c.buttons.run.click, c.prompt.submit, page.requested.change])
    start(None, c.settings, None, js=call("writeRace", True), **IN_BROWSER)
    c.buttons.on(
        start,
        compete,
        [c.prompt, c.model, c.modes, *c.generation],
        page.stage,
        settings=[c.tau, c.watch],
        model=c.model,
        show_progress="minimal",
        show_progress_on=c.prompt,
        **in_turns(),
    )
