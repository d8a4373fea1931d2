"""The Frontier tab: accuracy against speed, a point per setting, recorded or measured on the page.

On a visitor's own prompts it shows a verdict instead of the chart.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import gradio as gr
from pandas import DataFrame

from mars_demo.core.scheduler import BACKGROUND, WAITING
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.calibration import calibrations
from mars_demo.evaluation.frontier import ACROSS, Frontier, Graded, parse_taus
from mars_demo.evaluation.sweep import sweep
from mars_demo.evaluation.task_sets import TITLES
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.ui import own_prompts, plots
from mars_demo.ui.controls import LIVE, MAY_WARN, SCORES, RunButtons, in_queue, text_table
from mars_demo.ui.hosting.gpu import LONGEST, on_gpu
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.knobs import Knobs
from mars_demo.ui.racing import within_limits
from mars_demo.ui.shape_choice import ShapeChoice, shaped
from mars_demo.ui.tabs import Page

TITLE = "Frontier"

PROMPTS = {own_prompts.NAME: own_prompts.TITLE} | TITLES
LIMIT = 48  # prompts
LARGEST = 480
TAUS = "1, 0.95, 0.9, 0.8, 0.6"
ROWS = 16  # batch slots; a race waits for at most one forward of such a batch
EVERY = 0.2  # seconds between two progress messages

CALIBRATED = "Is τ calibrated? How often slots have AR's token, by score"
INTRODUCTION = """
A lower **threshold τ** accepts more tokens per **forward** (a pass through the model) and may make answers
worse. Each point is one setting, with 95% intervals over prompts. **AR** writes one token per forward.
**Lossless** verifies its own drafts: its answers equal AR's, except for near ties in bfloat16. Does it pay
on your text? Choose **your prompts**.
"""
WAITS = "Waiting for a race or another run."
RACED = f"Each prompt is raced alone in adaptive windows; answers end at {Request.max_new_tokens} tokens."
SHAPED = " Differences are from AR with the same shape, speeds from AR without one."
RECORDS = "python -m benchmarks.frontier --output assets/results/frontier.json"
FILE = "frontier.json"
Measurement = Callable[[Checkpoint], Iterator[tuple[Frontier, str]]]


def described(frontier: Frontier) -> str:
    """Return the prompts, tasks, batch size, precision and machine of a frontier, and races' precision."""
    prompts = f"{len(frontier.prompts)} prompts, {frontier.title}, in batches of {frontier.size}"
    loaded = MODELS.member(frontier.model).checkpoint
    races = f"; races here run in {loaded.precision}" if loaded else ""
    return f"{prompts}. {frontier.machine}{races}."


# ------------------------------------------------------------------------------ recorded results


def open_frontier(model: str | None, tasks: str):
    """List the models when the tab is opened; the first time, show the first one with records."""
    names = MODELS.choices()
    if model:
        return gr.Dropdown(choices=names), *[gr.skip()] * 4
    model = next((name for name in names if _recorded(name)), names[0])
    return gr.Dropdown(choices=names, value=model), *choose_model(model, tasks)


def choose_model(model: str, tasks: str):
    """Show another model's recorded results: on these prompts, or else on the first that have any."""
    frontiers = _recorded(model)
    if tasks in frontiers or tasks == own_prompts.NAME:
        return gr.skip(), *recorded_frontier(model, tasks)  # the visitor may have chosen others meanwhile
    tasks = next(iter(frontiers), tasks)
    return tasks, *recorded_frontier(model, tasks)


def recorded_frontier(model: str, tasks: str) -> tuple[Frontier, gr.Dropdown, str]:
    """Return a model's recorded points on a task set, a choice of them, and their source or absence."""
    frontiers = _recorded(model)
    frontier = frontiers.get(tasks) or Frontier(model, tasks, PROMPTS[tasks], ROWS, "", ())
    if frontier.points:
        about = f"Recorded on {described(frontier)} Source: {results.origin(vars(frontier))}"
    elif tasks == own_prompts.NAME:
        about = "Paste your prompts and press “Measure here”."
    else:
        titles = ", ".join(frontier.title for frontier in frontiers.values())
        others = f" It has results for: {titles}." if titles else ""
        about = (
            f"No recorded results for {model} on these tasks.{others} "
            f"Press “Measure here”, or record results with `{RECORDS}`."
        )
    return frontier, _points(frontier, is_new=True), about


def _points(frontier: Frontier, is_new: bool) -> gr.Dropdown:
    """Return the choice of a point: none of a new frontier, and of own prompts the point of the verdict."""
    chosen = {"value": None} if is_new else {}
    if frontier.points and frontier.tasks == own_prompts.NAME:
        chosen = {"value": own_prompts.JUDGED.title}
    return gr.Dropdown(choices=[point.setting.title for point in frontier.points], **chosen)


def _recorded(model: str) -> dict[str, Frontier]:
    sweeps = results.read_results(FILE)["sweeps"]
    return {each["tasks"]: Frontier.read(each) for each in sweeps if each["model"] == model}


# --------------------------------------------------------------------------------- measured here


def measure_here(
    model: str,
    tasks: str,
    limit: float,
    taus: str,
    criteria: list[str],
    pasted: str,
    shape: str,
    grammar: str,
    knobs: Knobs,
) -> Iterator[tuple]:
    """Sweep in the background; yield the growing frontier, a choice of points, its source, and progress."""
    if tasks == own_prompts.NAME:
        start = _own_measurement(pasted or "", shape, grammar)
    else:
        start = _measurement(tasks, limit, taus, criteria)
    steps = _swept(model, start, knobs)
    yield from within_limits(_shown(steps, knobs), knobs)


def _shown(results: Iterator, knobs: Knobs) -> Iterator[tuple]:
    said, still = 0.0, [gr.skip()] * 3
    with closing(results) as steps:
        for step in steps:
            if step is WAITING and knobs.stopped:
                message = "Stopped."
                break
            frontier, message = (None, WAITS) if step is WAITING else step
            if frontier:
                yield frontier, _points(frontier, is_new=not frontier.points), about(frontier), message
            elif step is WAITING or time.monotonic() - said > EVERY:
                said = time.monotonic()
                yield *still, message
    yield *still, message


# Wrong settings are refused in these two, before the sweep waits for its turn.
def _own_measurement(pasted: str, shape: str, grammar: str) -> Measurement:
    prompts, given = own_prompts.parse(pasted), shaped(shape, grammar)
    return partial(own_prompts.races, prompts=prompts, grammar=given)


def _measurement(tasks: str, limit: float, taus: str, criteria: list[str]) -> Measurement:
    settings = {"tasks": tasks, "limit": int(limit), "criteria": criteria, "taus": parse_taus(taus or "")}
    return partial(sweep, **settings, size=ROWS)


def about(frontier: Frontier) -> str:
    """Return the source of a frontier that was measured here and, of own prompts, the verdict before it."""
    if frontier.tasks == own_prompts.NAME:
        compared = SHAPED if any(point.setting.grammar for point in frontier.points) else ""
        return f"{own_prompts.own_verdict(frontier)} {RACED}{compared} {frontier.machine}."
    return f"Measured on this page on {described(frontier)}"


@on_gpu(lambda *_: LONGEST, BACKGROUND)
def _swept(model: str, start: Measurement, knobs: Knobs) -> Iterator[tuple[Frontier | None, str]]:
    """Yield the frontier, whenever it has changed, and the progress, until the sweep ends or is stopped."""
    shown, message = None, ""
    with closing(start(MODELS.load(model))) as steps:
        for frontier, message in steps:
            yield None if frontier == shown else frontier, message
            shown = frontier
            if knobs.stopped:
                yield None, f"Stopped. {message}"
                return
    yield None, f"Measured. {message}"


# ------------------------------------------------------------------------------------- the page


def draw_frontier(frontier: Frontier, across: str):
    """Draw a sweep: the chart, except of own prompts, and the table."""
    is_listed = bool(frontier.points)
    is_charted = is_listed and frontier.tasks != own_prompts.NAME
    return (
        gr.Column(visible=is_charted),
        plots.plot_sweep(frontier, across) if is_charted else gr.skip(),
        gr.Column(visible=is_listed),
        frontier.table(),
    )


def draw_calibration(model: str | None, score: str):
    """Draw the calibration of a model; hide it if it is not measured."""
    measured = calibrations(model).get(score)
    if measured is None:
        return gr.Accordion(visible=False), gr.skip(), gr.skip()
    return gr.Accordion(visible=True), plots.plot_calibration(measured), measured.sentence


def show_inputs(tasks: str):
    """Show the controls of a measurement of own prompts, or of a sweep over built-in ones."""
    is_own = tasks == own_prompts.NAME
    return gr.Column(visible=is_own), gr.Column(visible=not is_own)


def pick(event: gr.SelectData) -> str:
    """Return the first cell of the selected row."""
    return event.row_value[0]


def look(frontier: Frontier, title: str | None):
    """List the answers of a point, and their prompts for the choice of one.

    Wrong answers come first, then those that differ from AR's; of own prompts, the slowest.
    """
    point = frontier.named(title)
    if point is None:
        return gr.Column(visible=False), gr.skip(), gr.Dropdown(value=None)
    is_own = frontier.tasks == own_prompts.NAME
    order = (
        frontier.speed_up if is_own else lambda answer: (answer.right is not False, answer.leaves is None)
    )
    outcomes = sorted(point.outcomes, key=order)
    prompts = [frontier.prompts[answer.number] for answer in outcomes]
    texts = ["(text not recorded)" if answer.text is None else answer.text for answer in outcomes]
    graded = [", ".join(comparisons(frontier, answer)) for answer in outcomes]
    table = DataFrame({"prompt": prompts, "answer": texts, "result": graded})
    return gr.Column(visible=True), table, gr.Dropdown(choices=prompts)


def comparisons(frontier: Frontier, answer: Graded) -> Iterator[str]:
    """Yield how an answer compares with the right answer and with AR."""
    if answer.right is not None:
        yield "✓ right" if answer.right else "✗ wrong"
    if answer.seconds is not None:
        yield f"{frontier.speed_up(answer):.2f}× AR"
    if answer.leaves is not None:
        yield f"differs from AR at token {answer.leaves + 1}"


class FrontierControls:
    """The controls beside the chart."""

    def __init__(self):
        self.model = gr.Dropdown([], label="Model", elem_id="frontier-model")
        self.tasks = gr.Dropdown(
            [(title, name) for name, title in PROMPTS.items()],
            value=next(iter(TITLES)),
            label="Prompts",
            elem_id="frontier-tasks",
        )
        with gr.Column(visible=False) as self.own:
            self.pasted = gr.Textbox(
                label="Your prompts", info=own_prompts.HELP, lines=5, max_lines=7, elem_id="frontier-own"
            )
            self.shaped = ShapeChoice("frontier-")
        with gr.Column() as self.grid:
            self._grid()
        self.buttons = RunButtons("frontier-", "Measure here")
        self.said = gr.Markdown("Runs in the background; races have priority.", elem_id="frontier-said")

    def _grid(self) -> None:
        """Build the controls of a sweep over prompts of the built-in tasks."""
        self.limit = gr.Slider(
            8, LARGEST, LIMIT, step=8, label="Prompts, at most", elem_id="frontier-limit"
        )
        self.taus = gr.Textbox(
            TAUS, label="τ grid", info="Numbers from 0 to 1, separated by commas.", elem_id="frontier-taus"
        )
        self.criteria = gr.CheckboxGroup(
            SCORES,
            value=["probability"],
            label="Scores that τ is compared with",
            elem_id="frontier-criteria",
        )


class Results:
    """The chart, the table of points, and the answers of a chosen point."""

    def __init__(self, page: Page):
        page.shown.render()
        with gr.Column(visible=False) as self.drawn:
            self.across = gr.Radio(
                ACROSS, value=ACROSS[0], label="Accuracy against", elem_id="frontier-across"
            )
            self.chart = gr.Plot(show_label=False, elem_id="frontier-chart")
        with gr.Accordion(CALIBRATED, open=False, visible=False, elem_id="calibrated") as self.calibrated:
            self.score = gr.Radio(SCORES, value=SCORES[0][1], label="Score", elem_id="calibrated-score")
            self.reliability = gr.Plot(show_label=False, elem_id="calibrated-chart")
            self.sentence = gr.Markdown(elem_id="calibrated-sentence")
        self.about = gr.Markdown(elem_id="frontier-about")
        with gr.Column(visible=False) as self.listed:
            self.table = text_table("frontier-table", "Points")
            page.point.render()
        with gr.Column(visible=False) as self.details:
            self.answers = text_table("frontier-answers", "Answers", ["38%", "38%", "24%"])
            with gr.Row(elem_classes="level"):
                page.prompt.render()
                page.race_prompt.render()


def build(page: Page, tab: gr.Tab) -> None:
    """Build the tab's components and events; the Race tab connects its button that starts a race."""
    gr.Markdown(INTRODUCTION, elem_classes="intro")
    with gr.Row(elem_id="frontier-page"):
        with gr.Column(scale=2, min_width=280):
            c = FrontierControls()
        with gr.Column(scale=7, min_width=640):
            r = Results(page)

    chosen, shown = [c.model, c.tasks], [page.shown, page.point]
    # In the queue: Gradio's page hears of a changed state from queued events only.
    latest = {**MAY_WARN, "trigger_mode": "always_last"}
    tab.select(open_frontier, chosen, [*chosen, *shown, r.about], **MAY_WARN)
    c.model.input(choose_model, chosen, [c.tasks, *shown, r.about], **latest)
    c.tasks.input(recorded_frontier, chosen, [*shown, r.about], **latest)
    c.tasks.input(show_inputs, c.tasks, [c.own, c.grid], **LIVE)
    c.shaped.connect()
    c.buttons.on(
        c.buttons.run.click,
        measure_here,
        [c.model, c.tasks, c.limit, c.taus, c.criteria, c.pasted, c.shaped.shape, c.shaped.grammar],
        [*shown, r.about, c.said],
        model=c.model,
        **in_queue("sweeps", c.tasks),
    )
    drawn = [r.drawn, r.chart, r.listed, r.table]
    gr.on([page.shown.change, r.across.input], draw_frontier, [page.shown, r.across], drawn, **LIVE)
    calibration = [r.calibrated, r.reliability, r.sentence]
    gr.on([c.model.change, r.score.input], draw_calibration, [c.model, r.score], calibration, **LIVE)
    r.table.select(pick, None, page.point, **LIVE)
    changes = [page.shown.change, page.point.change]
    gr.on(changes, look, shown, [r.details, r.answers, page.prompt], **LIVE)
    r.answers.select(pick, None, page.prompt, **LIVE)
