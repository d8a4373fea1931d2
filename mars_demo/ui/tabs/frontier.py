"""The Frontier tab: accuracy against speed, a point per setting, recorded or measured on the page.

On a visitor's own prompts it shows a verdict and a table instead of the chart.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache
from pandas import DataFrame

from mars_demo.core.acceptance import CRITERIA
from mars_demo.core.scheduler import BACKGROUND, WAITING
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import ACROSS, Frontier, Outcome, Point, parse_taus
from mars_demo.evaluation.journal import folder
from mars_demo.evaluation.sweep import Sweep, grid
from mars_demo.evaluation.task_sets import TASK_SETS
from mars_demo.ui import own_prompts, plots
from mars_demo.ui.controls import LIVE, MAY_WARN, RunButtons, in_queue, text_table
from mars_demo.ui.hosting.gpu import LONGEST, on_gpu
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.hosting.storage import storage
from mars_demo.ui.knobs import Knobs
from mars_demo.ui.own_prompts import OwnFrontier, Prompt
from mars_demo.ui.tabs import Page

TITLE = "Frontier"

LIMIT = 48  # prompts
LARGEST = 480
MOST_TAUS = 12
TAUS = "1, 0.95, 0.9, 0.8, 0.6"
ROWS = 16  # batch slots; a race waits for at most one forward of such a batch
EVERY = 0.2  # seconds between two progress messages

INTRODUCTION = """
A lower **threshold τ** accepts more tokens per **forward** (a pass through the model) and may make answers
worse. Each point is one setting, with 95% intervals over prompts. **AR** writes one token per forward.
**Lossless** verifies its own drafts: its answers equal AR's, except for near ties in bfloat16. Does it pay
on your text? Choose **your prompts**.
"""
WAITS = "Waiting for a race or another run."
LONGEST_ANSWER = f"answers end at {Request.max_new_tokens} tokens"
RECORDS = "python -m benchmarks.frontier --output assets/results/frontier.json"
FILE = "frontier.json"
AUP = "Accuracy under parallelism (AUP; AR alone has its accuracy in percent): {}. "
KINDS = {  # of the answers of a point
    "wrong": lambda point: point.wrong,
    "different from AR": lambda point: point.different,
    "all": lambda point: point.outcomes,
}


@dataclass(frozen=True, eq=False)  # a new object is a change of the page's state, even if it is equal
class Shown:
    """The sweep on the page, and its source in words."""

    frontier: Frontier
    about: str

    @property
    def is_own(self) -> bool:
        """Return whether the prompts are the visitor's, each measured alone, as in a race."""
        return isinstance(self.frontier, OwnFrontier)

    def point(self, name: str | None) -> Point | None:
        points = self.frontier.points
        return next((point for point in points if self.frontier.name(point.setting) == name), None)

    def extreme(self, name: str) -> tuple[str, str | None]:
        """Return the judged point of own prompts, and the slowest or fastest prompt at it, if any."""
        one = self.frontier.extremes().get(name) if self.is_own else None
        return self.frontier.name(own_prompts.JUDGED), one and self.frontier.prompts[one.number]


def described(frontier: Frontier) -> str:
    """Return the prompts, tasks and batch size of a frontier in words."""
    return f"{len(frontier.prompts)} prompts, {frontier.title}, in batches of {frontier.size}"


# ------------------------------------------------------------------------------ recorded results


def opened(model: str | None, tasks: str, raced: str | None):
    """List the models when the tab is opened; the first time, show the first one with records."""
    names = list(dict.fromkeys([*MODELS.names(), *([raced] if raced else [])]))  # with the visitor's own
    if model:
        return gr.Dropdown(choices=names), gr.skip(), gr.skip(), gr.skip()
    model = next((name for name in names if _recorded(name)), names[0])
    return gr.Dropdown(choices=names, value=model), *choose(model, tasks)


def choose(model: str, tasks: str):
    """Show another model's recorded results: on these prompts, or else on the first that have any."""
    frontiers = _recorded(model)
    is_kept = tasks in frontiers or tasks == own_prompts.NAME
    tasks = tasks if is_kept else next(iter(frontiers), tasks)
    return tasks, *recorded(model, tasks)


def recorded(model: str, tasks: str) -> tuple[Shown, None]:
    """Show the recorded points of a model on a task set, or a message that there are none."""
    if tasks == own_prompts.NAME:
        return Shown(own_prompts.nothing(model), "Paste your prompts and press “Measure here”."), None
    frontiers = _recorded(model)
    if frontier := frontiers.get(tasks):
        origin = results.origin(results.read(FILE))
        about = f"Recorded on {described(frontier)}. {frontier.machine}. Source: {origin}"
        return Shown(frontier, about), None
    titles = ", ".join(frontier.title for frontier in frontiers.values())
    others = f" It has results for: {titles}." if titles else ""
    about = (
        f"No recorded results for {model} on these tasks.{others} "
        f"Press “Measure here”, or record results with `{RECORDS}`."
    )
    return Shown(Frontier(model, tasks, TASK_SETS[tasks].title, ROWS, "", ()), about), None


def _recorded(model: str) -> dict[str, Frontier]:
    """Return a model's recorded frontiers by task set."""
    sweeps = (results.read(FILE) or {"sweeps": []})["sweeps"]
    return {each["tasks"]: Frontier.read(each) for each in sweeps if each["model"] == model}


# --------------------------------------------------------------------------------- measured here


def checked(limit: float, taus: str) -> tuple[int, list[float]]:
    """Return the number of prompts and the grid of τ.

    Raises:
        ValueError: if one of them is out of range.
    """
    if not (isinstance(limit, int | float) and 1 <= limit <= LARGEST and limit == int(limit)):
        raise ValueError(f"The number of prompts must be a whole number from 1 to {LARGEST}, not {limit}.")
    grid = parse_taus(str(taus))
    if len(grid) > MOST_TAUS:
        raise ValueError(f"The τ grid has {len(grid)} numbers; at most {MOST_TAUS} are measured here.")
    return int(limit), grid


def measure(
    model: str, tasks: str, limit: float, taus: str, criteria: Sequence[str], pasted: str, knobs: Knobs
) -> Iterator[tuple]:
    """Sweep in the background; yield the growing frontier, the chosen point, and the progress."""
    said = 0.0
    if tasks == own_prompts.NAME:
        swept = _measured(model, own_prompts.parse(pasted or ""), knobs)
    else:
        swept = _swept(model, tasks, *checked(limit, taus), list(criteria), knobs)
    with closing(swept) as steps:
        for step in steps:
            frontier, message = (None, WAITS) if step is WAITING else step
            if frontier:
                yield Shown(frontier, about(frontier)), gr.skip() if frontier.points else None, message
            elif step is WAITING or time.monotonic() - said > EVERY:
                said = time.monotonic()
                yield gr.skip(), gr.skip(), message
            if step is WAITING and knobs.stopped:
                yield gr.skip(), gr.skip(), "Stopped."
                return


def about(frontier: Frontier) -> str:
    """Return the source of a frontier that was measured here and, of own prompts, the verdict before it."""
    if isinstance(frontier, OwnFrontier):
        return f"{frontier.verdict()} Each prompt is raced alone; {LONGEST_ANSWER}. {frontier.machine}."
    return f"Measured on this page on {described(frontier)}. {frontier.machine}."


@on_gpu(lambda *_: LONGEST, BACKGROUND)
def _measured(model: str, prompts: list[Prompt], knobs: Knobs) -> Iterator[tuple[Frontier | None, str]]:
    """Yield the frontier of own prompts after each of them, and the progress, as `_swept` does."""
    checkpoint, count = MODELS.load(model), len(prompts)
    frontier = own_prompts.nothing(model)
    with closing(own_prompts.measure(checkpoint, prompts)) as steps:
        for step in steps:
            frontier = step or frontier
            yield step, f"{len(frontier.prompts)} of {count} prompts measured."
            if knobs.stopped:
                break
    done = len(frontier.prompts)
    yield frontier, f"{'Measured' if done == count else 'Stopped'}: {done} of {count} prompts."


@on_gpu(lambda *_: LONGEST, BACKGROUND)
def _swept(
    model: str, tasks: str, limit: int, taus: list[float], criteria: list[str], knobs: Knobs
) -> Iterator[tuple[Frontier | None, str]]:
    """Yield the frontier, whenever it has changed, and the progress, until the sweep ends or is stopped."""
    checkpoint = MODELS.load(model)
    settings = grid(checkpoint, criteria, taus)
    sweep = Sweep(checkpoint, tasks, limit, settings, size=ROWS, folder=folder())
    yield sweep.frontier, "Measuring."
    with closing(iter(sweep)) as steps:
        for step in steps:
            setting, answered = step.setting.title, f"{step.answered} of {step.prompts} prompts answered"
            message = f"Point {step.number} of {step.settings}: {setting}; {answered}."
            yield sweep.frontier if step.point else None, message
            if knobs.stopped:
                break
    count = len(sweep.frontier.points)
    ended = "Measured" if count == len(settings) else "Stopped"
    yield sweep.frontier, f"{ended}: {count} point{'s' * (count != 1)} on {described(sweep.frontier)}."


# ------------------------------------------------------------------------------------- the page


def draw(shown: Shown, across: str, paper: bool):
    """Draw the sweep: its source, the chart, the CSV file, the table, and the choice of a point."""
    frontier, is_listed = shown.frontier, bool(shown.frontier.prompts)
    is_charted = is_listed and not shown.is_own
    areas, chart, csv = _charted(frontier, across, paper) if is_charted else ("", gr.skip(), gr.skip())
    return (
        areas + shown.about,
        gr.Column(visible=is_charted),
        gr.Column(visible=is_listed),
        gr.Row(visible=is_listed and shown.is_own),
        *(_extremes(frontier) if is_listed and shown.is_own else [gr.skip()] * 2),
        chart,
        csv,
        frontier.table(),
        gr.Dropdown(choices=[frontier.name(point.setting) for point in frontier.points]),
    )


def _extremes(frontier: OwnFrontier) -> list[str]:
    """Return the labels of the buttons that race the slowest and the fastest prompt."""
    return [
        f"Race the {name} prompt ({frontier.speed_up(one):.2f}×)"
        for name, one in frontier.extremes().items()
    ]


def _charted(frontier: Frontier, across: str, paper: bool) -> tuple:
    """Return the areas under the curves in words, the chart, and the CSV file."""
    areas = ", ".join(f"{criterion} {area:.0f}" for criterion, area in frontier.aup().items())
    csv = frontier.frame().to_csv(index=False).encode()
    name = f"frontier-{Path(frontier.model).name}.csv"
    file = save_bytes_to_cache(csv, name, str(storage().gradio))
    return AUP.format(areas) if areas else "", plots.sweep(frontier, across, paper), file


def ask(tasks: str):
    """Show the text box for own prompts, or the controls of a sweep over built-in ones."""
    is_own = tasks == own_prompts.NAME
    return gr.Textbox(visible=is_own), gr.Column(visible=not is_own)


def pick(event: gr.SelectData) -> str:
    """Return the first cell of the selected row."""
    return event.row_value[0]


def look(shown: Shown, title: str | None):
    """List the answers of a point: the wrong ones, or else those that differ from AR's, or else all."""
    point = shown.point(title)
    if point is None:
        return gr.Column(visible=False), gr.skip(), gr.skip(), gr.skip()
    counts = {kind: len(of(point)) for kind, of in KINDS.items()}
    if all(one.right is None for one in point.outcomes):
        del counts["wrong"]
    kind = next((kind for kind, count in counts.items() if count), "all")
    choices = [(f"{kind} ({count})", kind) for kind, count in counts.items()]
    return gr.Column(visible=True), gr.Radio(choices, value=kind), *list_answers(shown, title, kind)


def list_answers(shown: Shown, title: str | None, kind: str):
    """List the answers of one kind, and their prompts for the choice of one."""
    outcomes = KINDS[kind](shown.point(title))
    prompts = [shown.frontier.prompts[one.number] for one in outcomes]
    texts = ["(text not recorded)" if one.text is None else one.text for one in outcomes]
    graded = [", ".join(comparisons(shown, one)) for one in outcomes]
    table = {"prompt": prompts, "answer": texts, "result": graded}
    return DataFrame(table), gr.Dropdown(choices=prompts, value=None)


def comparisons(shown: Shown, one: Outcome) -> Iterator[str]:
    """Yield how an answer compares with the right answer and with AR."""
    if one.right is not None:
        yield "✓ right" if one.right else "✗ wrong"
    if shown.is_own:
        yield f"{shown.frontier.speed_up(one):.2f}× AR"
    if one.leaves is not None:
        yield f"differs from AR at token {one.leaves + 1}"


class Controls:
    """The controls beside the chart."""

    def __init__(self):
        self.model = gr.Dropdown([], label="Model", elem_id="frontier-model")
        own = (own_prompts.TITLE, own_prompts.NAME)
        tasks = [(task_set.title, name) for name, task_set in TASK_SETS.items()]
        self.tasks = gr.Dropdown(
            [own, *tasks], value=tasks[0][1], label="Prompts", elem_id="frontier-tasks"
        )
        self.pasted = gr.Textbox(
            label="Your prompts",
            info=own_prompts.HELP,
            lines=5,
            max_lines=7,
            visible=False,
            elem_id="frontier-own",
        )
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
            [(criterion.title.capitalize(), name) for name, criterion in CRITERIA.items()],
            value=["probability"],
            label="Scores that τ is compared with",
            elem_id="frontier-criteria",
        )


class Results:
    """The chart, the table of points, and the answers of a chosen point."""

    def __init__(self, page: Page):
        page.shown.render()
        with gr.Column(visible=False) as self.drawn:
            with gr.Row(elem_classes="level"):
                self.across = gr.Radio(
                    ACROSS, value=ACROSS[0], label="Accuracy against", scale=5, elem_id="frontier-across"
                )
                with gr.Column(scale=3, min_width=220):
                    self.paper = gr.Checkbox(label="Show the paper's τ sweep", elem_id="frontier-paper")
                self.csv = gr.DownloadButton("CSV", min_width=80, elem_id="frontier-csv")
            self.chart = gr.Plot(show_label=False, elem_id="frontier-chart")
        self.about = gr.Markdown(elem_id="frontier-about")
        with gr.Column(visible=False) as self.listed:
            self.table = text_table("frontier-table", "Points")
            with gr.Row(visible=False) as self.extremes:
                for button in page.race_extremes.values():
                    button.render()
            with gr.Row(elem_classes="level"):
                page.point.render()
                page.open_race.render()
        with gr.Column(visible=False) as self.details:
            self.kind = gr.Radio([], label="Answers of this point", elem_id="frontier-kind")
            self.answers = text_table("frontier-answers", "Answers", ["38%", "38%", "24%"])
            with gr.Row(elem_classes="level"):
                page.prompt.render()
                page.race_prompt.render()


def build(page: Page, tab: gr.Tab) -> None:
    """Build the tab's components and events; the Race tab connects its buttons that open a race."""
    gr.Markdown(INTRODUCTION, elem_classes="intro")
    with gr.Row(elem_id="frontier-page"):
        with gr.Column(scale=2, min_width=280):
            c = Controls()
        with gr.Column(scale=7, min_width=640):
            r = Results(page)

    chosen, shown = [c.model, c.tasks], [page.shown, page.point]
    # In the queue: Gradio's page hears of a changed state from queued events only.
    latest = {**MAY_WARN, "trigger_mode": "always_last"}
    tab.select(opened, [*chosen, page.model], [*chosen, *shown], **MAY_WARN)
    c.model.input(choose, chosen, [c.tasks, *shown], **latest)
    c.tasks.input(recorded, chosen, shown, **latest)
    c.tasks.input(ask, c.tasks, [c.pasted, c.grid], **LIVE)
    c.buttons.on(
        c.buttons.run.click,
        measure,
        [c.model, c.tasks, c.limit, c.taus, c.criteria, c.pasted],
        [*shown, c.said],
        model=c.model,
        **in_queue("sweeps", c.tasks),
    )
    drawn = [r.about, r.drawn, r.listed, r.extremes, *page.race_extremes.values()]
    drawn += [r.chart, r.csv, r.table, page.point]
    changes = [page.shown.change, r.across.input, r.paper.input]
    gr.on(changes, draw, [page.shown, r.across, r.paper], drawn, **LIVE)
    answers = [r.answers, page.prompt]
    r.table.select(pick, None, page.point, **LIVE)
    page.point.change(look, shown, [r.details, r.kind, *answers], **LIVE)
    r.kind.input(list_answers, [*shown, r.kind], answers, **LIVE)
    r.answers.select(pick, None, page.prompt, **LIVE)
