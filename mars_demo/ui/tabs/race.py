"""The Race tab: a model races against itself on one prompt, one token per forward and in other modes."""

import contextlib
from collections.abc import Mapping, Sequence

import gradio as gr

from mars_demo.assets import read_json
from mars_demo.decoding.acceptance import CRITERIA
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.modes import BASELINE, RACED, modes_of
from mars_demo.ui import api, branches, models
from mars_demo.ui.components.drawing import Drawing
from mars_demo.ui.components.stage import SETTINGS
from mars_demo.ui.controls import (
    EACH,
    IN_BROWSER,
    LIVE,
    MAY_WARN,
    QUIET,
    TAU,
    Knobs,
    RunButtons,
    at_once,
    in_turns,
    or_warn,
    refuse_crowd,
    set_tau,
    set_wait,
    tau_slider,
    warn,
)
from mars_demo.ui.history import History
from mars_demo.ui.hosting.gpu import on_gpu, seconds
from mars_demo.ui.hosting.visitors import at_leaving
from mars_demo.ui.racing import streamed, within_limits
from mars_demo.ui.scripts import script
from mars_demo.ui.tabs import Page

TITLE = "Race"
PROMPTS = read_json("prompts.json")  # each made for one model
GENERAL = PROMPTS[0]["model"]  # a chat model, whose examples also suit other chat models
EXAMPLES = {e["model"]: [own for own in PROMPTS if own["model"] == e["model"]] for e in PROMPTS}
MODES = {f"{mode.title}: {mode.explained}": mode.name for mode in RACED}
SCORES = {criterion.title.capitalize(): name for name, criterion in CRITERIA.items()}
CRITERION = Request.criterion  # that of the paper and of recorded runs; the default of the URL
MAX_WAIT = 1000  # ms of slow motion per forward
LONGEST_PROMPT = 2048  # bytes of an encoded prompt in the URL


# ------------------------------------------------------------------------------------- the race


def compete(prompt, model, modes, criterion, system, history, adapts, knobs, request: gr.Request):
    """Race; yield the growing value of the stage, which stays unchanged if the runs are not possible.

    adapts: whether windows adapt to the costs of forwards; if not, the answers are those of a sweep.
    """
    at_leaving(request, history.forget)
    runs = _raced(prompt, model, modes, criterion, system, history, adapts, knobs)
    yield from or_warn(within_limits(runs, knobs), gr.skip())


@on_gpu(lambda _, model, modes, *rest: seconds((1 + len(modes)) * api.MAX_NEW_TOKENS, rest[-1].wait))
def _raced(prompt, model, modes, criterion, system, history: History, adapts, knobs: Knobs):
    checkpoint = models.load(model)

    def run(mode: str) -> Run:
        window = None if adapts else Request(mode).fitted(checkpoint).window
        limits = {"window": window, "max_new_tokens": api.MAX_NEW_TOKENS}
        request = Request(mode, lambda: knobs.tau, criterion, **limits)
        context = {"messages": history.after(system), "cache": history.cache(mode)}
        return models.decode(checkpoint, prompt, request, **context)

    yield from streamed({mode: run(mode) for mode in lanes(checkpoint.modes, modes)}, knobs)


def go_on(wish: branches.Wish, history: History, knobs: Knobs, request: gr.Request):
    """Continue a run with another token, beside the runs that stay on the stage."""
    at_leaving(request, history.forget)
    yield from or_warn(within_limits(branches.branched(wish, history, knobs), knobs), gr.skip())


def lanes(has: Sequence[str], chosen: Sequence[str]) -> list[str]:
    """Return the modes that race: the baseline and the chosen ones that the model has, or its default."""
    modes = [mode for mode in (BASELINE, *MODES.values()) if mode == BASELINE or mode in chosen]
    return [mode for mode in modes if mode in has] or [has[0]]


def wait_for(model: str) -> None:
    """Load a model before a race enters the queue. A failure is reported later, by the race.

    Raises:
        gr.Error: if the queue is full.
    """
    refuse_crowd()
    with contextlib.suppress(ValueError):
        models.load(model)


def take_wish(event: gr.EventData):
    """Return the requested branch, and its τ for the slider.

    Raises:
        ValueError: if it is not a branch of a record.
    """
    wish = branches.wish(event)
    return wish, gr.skip() if wish.run.tau is None else wish.run.tau


# -------------------------------------------------------- requests of the stage and the frontier


def _thresholds(tau, criterion):
    """Return a page's τ and criterion for their controls; null and invalid values change nothing."""
    is_tau = isinstance(tau, int | float) and 0 <= tau <= 1
    is_criterion = isinstance(criterion, str) and criterion in CRITERIA
    return tau if is_tau else gr.skip(), criterion if is_criterion else gr.skip()


def again(history: History, event: gr.EventData):
    """Set the prompt, τ, criterion and system prompt to those of a run; continue its earlier messages."""
    if not isinstance(event.prompt, str):
        return [gr.skip()] * 4
    return event.prompt, *_thresholds(event.tau, event.criterion), put(history, event.messages)


def put_example(event: gr.EventData):
    """Set the prompt to an example that the stage offers."""
    return event.prompt if isinstance(event.prompt, str) else gr.skip()


def take(shown, title: str | None):
    """Set the model, mode, τ and criterion to those of a chosen point; keep the ones that it lacks."""
    if title is None or (point := shown.point(title)) is None:
        return [gr.skip()] * 4
    model, setting = shown.frontier.model, point.setting
    if not models.is_known(model):
        warn(ValueError(f"Unknown model {model!r}."))
        return [gr.skip()] * 4
    return (
        gr.Dropdown(choices=list(dict.fromkeys([*models.names(), model])), value=model),
        [setting.mode] if setting.mode in MODES.values() else gr.skip(),
        *_thresholds(setting.tau, setting.criterion),
    )


def take_prompt(history: History, shown, title: str, prompt: str | None):
    """Do the same, and begin a new conversation with a prompt of the sweep in this tab.

    Raises:
        gr.Error: if no prompt is chosen.
    """
    if not prompt:
        raise gr.Error("Choose a prompt first.", print_exception=False)
    put(history, [])
    return *take(shown, title), prompt, "", gr.Tabs(selected="race")


# ------------------------------------------------------------------------------ the conversation
#
# The coroutines run in the server's event loop, one after the other. Two concurrent handlers could both
# count as the newest, and the older one could win.


def put(history: History, messages):
    """Let the next race continue from these messages; return their system prompt for its control."""
    try:
        return history.put(messages)
    except ValueError as error:
        warn(error)
        return gr.skip()


async def reply(history: History, event: gr.EventData):
    """Let the next race continue from the picked answer, or begin a new conversation; clear the prompt."""
    if not history.is_news(event.number):
        return gr.skip()
    put(history, event.messages)
    return ""


async def show_history(history: History, event: gr.EventData):
    """Continue the conversation shown above the lanes; return its system prompt, if it is to change."""
    if not history.is_news(event.number):
        return gr.skip()
    system = put(history, event.messages)
    return gr.skip() if event.system is None else system


# -------------------------------------------------------------------- recorded runs and the URL


def recorded(entry: dict):
    """Return the prompt, modes, first τ and criterion of a recorded run."""
    modes = [mode for mode in entry["modes"] if mode != BASELINE]
    return entry["prompt"], modes, entry["tau"][0][1], CRITERION


def follow() -> str:
    """Return the script that sets the controls to those of the chosen recorded run."""
    made = {entry["id"]: [*recorded(entry), entry["model"]] for entry in models.recorded()}
    return script("tabs/recorded.js", made)


def opening(query: Mapping[str, str]) -> dict | None:
    """Return the recorded run that the stage opens with.

    It is the `run` of the URL, or the first recorded run if the URL has no settings of a race.
    """
    entries = {entry["id"]: entry for entry in models.recorded()}
    if query.get("run") in entries:
        return entries[query["run"]]
    return None if any(key in query for key in SETTINGS) else next(iter(entries.values()), None)


def arrive(request: gr.Request):
    """Set the controls that the URL names; keep the others, in which a visitor may be typing already.

    The URL names a recorded run, or `prompt` (a text or an example's id), `mode`, `tau` and `criterion`;
    and the slow motion, `wait`.
    """
    query = dict(request.query_params)
    wait = _within(query.get("wait"), MAX_WAIT)
    if "run" in query and (entry := opening(query)):
        return *recorded(entry), wait
    texts = {example["id"]: example["prompt"] for example in PROMPTS}
    prompt = query.get("prompt")
    if not prompt and models.is_served(query.get("model")):
        prompt = EXAMPLES[_whose(query["model"])][0]["id"]
    modes = [mode for mode in query.get("mode", "").split(",") if mode in MODES.values()]
    criterion = query.get("criterion")
    return (
        texts.get(prompt, prompt) if prompt else gr.skip(),
        modes or gr.skip(),
        _within(query.get("tau"), 1),
        criterion if criterion in CRITERIA else gr.skip(),
        wait,
    )


def _within(text: str | None, most: float):
    """Parse a number from 0 to `most`; return no change for other texts."""
    try:
        number = float(text)
    except (TypeError, ValueError):
        return gr.skip()
    return number if 0 <= number <= most else gr.skip()


def remember(live: bool = False) -> str:
    """Return the script that writes the settings into the URL.

    live: whether a race begins; if not, a control has changed.
    """
    ids = {example["prompt"]: example["id"] for example in PROMPTS}

    def made(entry: dict) -> dict:
        prompt, modes, tau, _ = recorded(entry)
        settings = {"prompt": ids.get(prompt, prompt), "model": entry["model"], "mode": ",".join(modes)}
        return settings | {"tau": f"{tau:g}", "criterion": None}

    data = {
        "live": live,
        "examples": ids,
        "recorded": {entry["id"]: made(entry) for entry in models.recorded()},
        "order": list(MODES.values()),
        "criterion": CRITERION,
        "longest": LONGEST_PROMPT,
        "settings": SETTINGS,
    }
    return script("tabs/race.js", data)


# ------------------------------------------------------------------------------------ the models


def list_models(request: gr.Request):
    """List the models; choose that of the URL's recorded run, `model` or example, if there is one."""
    served, query = models.names(), dict(request.query_params)
    made_for = next((e["model"] for e in PROMPTS if e["id"] == query.get("prompt")), None)
    recorded_with = (opening(query) or {}).get("model")
    names = (name for name in (recorded_with, query.get("model"), made_for, *served) if name in served)
    return gr.Dropdown(choices=served, value=next(names, None))


def introduce(model: str):
    """Begin to load a model; show its description and its card."""
    if model is None:
        return [gr.skip()] * 4
    models.begin(model)
    text = models.card(model)
    about = gr.Dropdown(info=models.description(model)), gr.Accordion(visible=bool(text)), text
    return *about, gr.Timer(active=True)


def follow_loading(model: str, chosen: list[str]):
    """Show the loading state and the modes of the chosen model; stop the timer when loading has ended."""
    if model is None:
        return [gr.skip()] * 3
    settled = models.is_settled(model)
    return models.state(model), mode_choices(model, chosen), gr.Timer(active=not settled)


def mode_choices(model: str, chosen: list[str]):
    """Offer the model's modes; the chosen ones among them stay chosen."""
    has = models.modes(model)
    if has is None:
        return gr.skip()
    choices = [(title, name) for title, name in MODES.items() if name in has]
    kept = [name for name in chosen if name in has]
    if kept and kept == chosen:  # no value: the visitor may have chosen other modes meanwhile
        return gr.CheckboxGroup(choices)
    return gr.CheckboxGroup(choices, value=kept or [name for _, name in choices][:1])


def show_examples(model: str):
    """Show only the examples that suit a model."""
    return [gr.update(visible=name == _whose(model)) for name in EXAMPLES]


def replace_example(model: str, prompt: str):
    """Replace the prompt if it is an example for another model."""
    others = {example["prompt"] for example in PROMPTS if example["model"] != _whose(model)}
    return EXAMPLES[_whose(model)][0]["prompt"] if prompt in others else gr.skip()


def _whose(model: str) -> str:
    """Return the model whose examples suit a model: the tiny one for models trained on its tasks."""
    if model in EXAMPLES:
        return model
    return models.TINY if models.knows_tasks_only(model) else GENERAL


# ------------------------------------------------------------------------------------- the page


def first():
    """Return the settings that the page opens with: those of the first recorded run, if any."""
    entry = opening({})
    return recorded(entry) if entry else (PROMPTS[0]["prompt"], [RACED[0].name], TAU, CRITERION)


class ModeChoice(gr.CheckboxGroup):
    """A choice of modes that accepts modes before they are offered, which Gradio would reject.

    A recorded run or a point of the frontier sets its modes before the modes of its model are known.
    """

    is_template = True  # drawn as a CheckboxGroup

    def preprocess(self, payload: list[str]) -> list[str]:
        return [mode for mode in payload if mode in MODES.values()]


class Controls:
    """The controls beside the stage."""

    def __init__(self, page: Page):
        first_prompt, first_modes, first_tau, _ = first()
        self.prompt = gr.Textbox(first_prompt, label="Prompt", lines=3, max_lines=8, elem_id="prompt")
        self.buttons = RunButtons()
        self.tau = tau_slider("tau", first_tau, "Acts immediately. At 1, one token per forward.")
        with gr.Column(elem_id="examples"):
            self.examples = [self._examples(made) for made in EXAMPLES.values()]
        self.model = page.model
        self.model.render()
        self.facts = Drawing("facts")
        self.asking = gr.Timer(0.5)
        with gr.Accordion("Model card", open=False, visible=False, elem_id="card") as self.about:
            self.card = gr.Markdown(elem_classes="numbers")
        self.modes = ModeChoice(
            [(title, name) for title, name in MODES.items() if name in modes_of("mars")],
            value=first_modes,
            label="Compare AR with",
            info="AR (autoregressive) writes one token per forward.",
            elem_id="mode",
        )
        self.wait = gr.Slider(
            0,
            MAX_WAIT,
            0,
            step=10,
            label="Slow motion: pause after each forward (ms)",
            info="Takes effect immediately; excluded from timings.",
            elem_id="wait",
        )
        with gr.Accordion("Advanced", open=False, elem_id="advanced"):
            self.criterion = gr.Radio(
                list(SCORES.items()),
                value=CRITERION,
                label="Score that τ is compared with",
                info="The paper's is the probability.",
                elem_id="criterion",
            )
            self.system = gr.Textbox(
                "",
                label="System prompt",
                info="Instructions that precede the conversation.",
                lines=2,
                max_lines=6,
                elem_id="system",
            )

    def _examples(self, made: list[dict]):
        return gr.Examples(
            [[example["prompt"]] for example in made],
            self.prompt,
            example_labels=[example["title"] for example in made],
            examples_per_page=len(made),
            api_visibility="private",
            visible=made[0]["model"] == _whose(models.names()[0]),
        ).dataset

    @property
    def settings(self) -> list:
        """The controls that the URL depends on, in the order of the inputs of `race.js`."""
        return [self.prompt, self.model, self.modes, self.tau, self.criterion, self.wait, self.system]


def build(page: Page, tab: gr.Tab) -> None:
    """Build the tab's components and events, and the function of the HTTP API."""
    with gr.Row(elem_id="race"):
        with gr.Column(scale=2, min_width=280, elem_id="controls"):
            controls = Controls(page)
        with gr.Column(scale=7, min_width=640):
            page.stage.render()
    _fill(page, controls)
    _run(page, controls)
    gr.api(api.generate, api_name="generate", concurrency_id="model", concurrency_limit=at_once())


def _fill(page: Page, controls: Controls) -> None:
    """Connect the events that set the controls or depend on them."""
    c, model = controls, controls.model
    # Registered first: Gradio's page waits for each handler of an event before it calls the next one, and a
    # later handler might change the URL meanwhile.
    changes = [control.change for control in c.settings]
    gr.on(changes, None, c.settings, None, js=remember(), **IN_BROWSER)
    made = [c.prompt, c.modes, c.tau, c.criterion]
    arrived = page.blocks.load(arrive, None, [*made, c.wait], **QUIET)
    arrived.then(list_models, None, model, **QUIET)  # waits until the model code is imported
    model.change(introduce, model, [model, c.about, c.card, c.asking], **QUIET)
    c.asking.tick(follow_loading, [model, c.modes], [c.facts, c.modes, c.asking], **QUIET)
    model.change(show_examples, model, c.examples, **QUIET)
    model.input(replace_example, [model, c.prompt], c.prompt, **LIVE)
    page.stage.recorded(None, None, [*made, model], js=follow(), **IN_BROWSER)
    page.stage.example(put_example, None, c.prompt, **EACH)


def _run(page: Page, controls: Controls) -> None:
    """Connect the events that start a race or change a running one."""
    c, history = controls, gr.State(History())
    _converse(page, controls, history)
    repeated = page.stage.again(again, history, [c.prompt, c.tau, c.criterion, c.system], **MAY_WARN)
    starts = [c.buttons.run.click, c.prompt.submit, repeated.then]
    for start in starts:
        start(None, c.settings, None, js=remember(live=True), **IN_BROWSER)
    _on_race(starts, page, c, history)
    _follow_frontier(page, c, history)
    _branch(page, c, history)
    c.tau.input(set_tau, [c.buttons.knobs, c.tau], None, **LIVE)
    c.wait.input(set_wait, [c.buttons.knobs, c.wait], None, **LIVE)


def _follow_frontier(page: Page, controls: Controls, history: gr.State) -> None:
    """Let a chosen point set the controls; race the prompts behind it."""
    c, chosen = controls, [page.shown, page.point]
    settings = [c.model, c.modes, c.tau, c.criterion]
    gr.on([page.point.change, page.open_race.click], take, chosen, settings, **LIVE)
    opened = page.open_race.click(lambda: gr.Tabs(selected="race"), None, page.tabs, **QUIET)
    opened.then(None, None, None, js=script("tabs/first_tab.js"), **IN_BROWSER)
    outputs = [*settings, c.prompt, c.system, page.tabs]
    taken = page.race_prompt.click(take_prompt, [history, *chosen, page.prompt], outputs, **MAY_WARN)
    taken.success(None, None, None, js=script("tabs/first_tab.js"), **IN_BROWSER)
    taken.success(None, c.settings, None, js=remember(live=True), **IN_BROWSER)
    _on_race([taken.success], page, c, history, adapts=False)


def _branch(page: Page, controls: Controls, history: gr.State) -> None:
    """Connect the event that continues a run with another token."""
    c, wish = controls, gr.State(None)
    taken = page.stage.branch(take_wish, None, [wish, c.tau], **MAY_WARN)
    c.buttons.on(
        [taken.success],
        go_on,
        [wish, history],
        page.stage,
        [c.tau, c.wait],
        before=(lambda wish: wait_for(wish.model), wish),
        show_progress="hidden",
        **in_turns(),
    )


def _on_race(starts: list, page: Page, c: Controls, history: gr.State, adapts: bool = True) -> None:
    """Start a race on each of the events."""
    c.buttons.on(
        starts,
        compete,
        [c.prompt, c.model, c.modes, c.criterion, c.system, history, gr.State(adapts)],
        page.stage,
        [c.tau, c.wait],
        before=(wait_for, c.model),
        show_progress="minimal",
        show_progress_on=c.prompt,
        **in_turns(),
    )


def _converse(page: Page, controls: Controls, history: gr.State) -> None:
    """Connect the events that continue a conversation or begin a new one."""
    c = controls
    page.stage.reply(reply, history, c.prompt, **EACH).then(
        None, None, None, js="() => document.querySelector('#prompt textarea').focus()", **IN_BROWSER
    )
    page.stage.history(show_history, history, c.system, **EACH)
    anew = "() => document.querySelector('#stage .stage').dispatchEvent(new Event('anew'))"
    for examples in c.examples:
        examples.click(None, None, None, js=anew, **IN_BROWSER)
