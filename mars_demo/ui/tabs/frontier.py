"""The Frontier tab: accuracy against speed, a point per setting, recorded or measured on the page."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache
from pandas import DataFrame

from mars_demo.decoding.acceptance import CRITERIA
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import ACROSS, Frontier, Outcome, Point, parse_taus
from mars_demo.evaluation.journal import folder
from mars_demo.evaluation.sweep import Sweep, grid
from mars_demo.evaluation.task_sets import TASK_SETS
from mars_demo.scheduler import BACKGROUND, WAITING
from mars_demo.ui.controls import LIVE, MAY_WARN, RunButtons, text_table
from mars_demo.ui.hosting.errors import or_warn
from mars_demo.ui.hosting.gpu import LONGEST, on_gpu
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.hosting.storage import storage
from mars_demo.ui.knobs import Knobs
from mars_demo.ui.queues import Queue, in_queue
from mars_demo.ui.tabs import Page
from mars_demo.views import plots

TITLE = "Frontier"

LIMIT = 48  # prompts
LARGEST = 480
MOST_TAUS = 12
TAUS = "1, 0.95, 0.9, 0.8, 0.6"
ROWS = 16  # batch slots; a race waits for at most one forward of such a batch
EVERY = 0.2  # seconds between two progress messages

INTRODUCTION = """
A lower **threshold τ** accepts more tokens per **forward** (a pass through the model) and may make answers
worse. Each point is one setting, measured on the same prompts; the lines around it are 95% intervals over
prompts. **AR** writes one token per forward. **Lossless** verifies its own drafts, so its answers equal
AR's, except for near ties in bfloat16. The table counts the answers that differ.
"""
WAITS = "Waiting for a race or another run."
RECORDS = "python -m benchmarks.frontier --output assets/results/frontier.json"
SWEEPS = Queue()
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

    def point(self, title: str | None) -> Point | None:
        return next((point for point in self.frontier.points if point.setting.title == title), None)


# ------------------------------------------------------------------------------ recorded results


def recorded(model: str, tasks: str) -> tuple[Shown, None]:
    """Show the recorded points of a model on a task set, or a message that there are none."""
    record, frontiers = _recorded(model)
    if frontier := frontiers.get(tasks):
        about = f"Recorded on {described(frontier)}. {frontier.machine}. Source: {results.origin(record)}"
        return Shown(frontier, about), None
    titles = ", ".join(frontier.title for frontier in frontiers.values())
    others = f" It has results for: {titles}." if titles else ""
    about = (
        f"No recorded results for {model} on these tasks.{others} "
        f"Press “Measure here”, or record results with `{RECORDS}`."
    )
    return Shown(Frontier(model, tasks, TASK_SETS[tasks].title, ROWS, "", ()), about), None


def described(frontier: Frontier) -> str:
    """Return the prompts, tasks and batch size of a frontier in words."""
    return f"{len(frontier.prompts)} prompts, {frontier.title}, in batches of {frontier.size}"


def _recorded(model: str) -> tuple[dict, dict[str, Frontier]]:
    """Return the file of recorded results, and a model's frontiers in it by task set."""
    record = results.read("frontier.json") or {"sweeps": []}
    read = [Frontier.read(each) for each in record["sweeps"] if each["model"] == model]
    return record, {frontier.tasks: frontier for frontier in read}


# --------------------------------------------------------------------------------- measured here


def measure(
    model: str, tasks: str, limit: float, taus: str, criteria: Sequence[str], knobs: Knobs
) -> Iterator[tuple]:
    """Sweep in the background; yield the growing frontier, the chosen point, and the progress."""
    steps = _measured(model, tasks, limit, taus, criteria, knobs)
    yield from or_warn(steps, (gr.skip(), gr.skip(), "Not measured."))


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


def _measured(
    model: str, tasks: str, limit: float, taus: str, criteria: Sequence[str], knobs: Knobs
) -> Iterator[tuple]:
    limit, grid = checked(limit, taus)
    frontier, said, settings = None, 0.0, 0
    with closing(_swept(model, tasks, limit, grid, list(criteria), knobs)) as steps:
        for step in steps:
            if step is WAITING:
                yield gr.skip(), gr.skip(), WAITS
            elif isinstance(step, Frontier):
                frontier = step
                about = f"Measured on this page on {described(frontier)}. {frontier.machine}."
                yield Shown(frontier, about), None, "Measuring."
            elif step.point:
                frontier, settings = replace(frontier, points=(*frontier.points, step.point)), step.settings
                yield Shown(frontier, about), gr.skip(), _progress(step)
            elif time.monotonic() - said > EVERY:
                said = time.monotonic()
                yield gr.skip(), gr.skip(), _progress(step)
            if knobs.stopped:
                break
    yield gr.skip(), gr.skip(), _ended(frontier, settings) if frontier else "Stopped."


def _progress(step) -> str:
    return (
        f"Point {step.number} of {step.settings}: {step.setting.title}; "
        f"{step.answered} of {step.prompts} prompts answered."
    )


def _ended(frontier: Frontier, settings: int) -> str:
    count = len(frontier.points)
    whole = count > 0 and count == settings  # the time limit of a lent GPU may have ended the sweep
    ended = "Measured" if whole else "Stopped"
    return f"{ended}: {count} point{'s' * (count != 1)} on {described(frontier)}."


@on_gpu(lambda *_: LONGEST, BACKGROUND)
def _swept(
    model: str, tasks: str, limit: int, taus: list[float], criteria: list[str], knobs: Knobs
) -> Iterator:
    """Yield the empty frontier, then each `Progress`, until the sweep ends or is stopped."""
    checkpoint = MODELS.load(model)
    settings = grid(checkpoint, criteria, taus)
    sweep = Sweep(checkpoint, tasks, limit, settings, size=ROWS, folder=folder())
    yield sweep.frontier
    with closing(iter(sweep)) as steps:
        for step in steps:
            yield step
            if knobs.stopped:
                return


# ------------------------------------------------------------------------------------- the page


def opened(model: str | None, tasks: str | None, raced: str | None):
    """Fill the tab when it is opened: the models, the task sets, and the recorded results."""
    names = MODELS.names()
    names += [raced] if raced and raced not in names else []  # the visitor's own model
    choices = [(task_set.title, name) for name, task_set in TASK_SETS.items()]
    if model:
        return gr.Dropdown(choices=names), gr.skip(), gr.skip()
    model = next((name for name in names if _recorded(name)[1]), names[0])
    tasks = next(iter(_recorded(model)[1]), next(iter(TASK_SETS)))
    return (
        gr.Dropdown(choices=names, value=model),
        gr.Dropdown(choices=choices, value=tasks),
        *recorded(model, tasks),
    )


def choose(model: str, tasks: str):
    """Show another model's recorded results: on this task set, or else on the first that has any."""
    frontiers = _recorded(model)[1]
    tasks = tasks if tasks in frontiers or not frontiers else next(iter(frontiers))
    return tasks, *recorded(model, tasks)


def draw(shown: Shown, across: str):
    """Draw the sweep: its source, the chart, the CSV file, the table, and the choice of a point."""
    frontier = shown.frontier
    areas = ", ".join(f"{criterion} {area:.0f}" for criterion, area in frontier.aup().items())
    aup = (
        f"Accuracy under parallelism (AUP; AR alone has its accuracy in percent): {areas}. "
        if areas
        else ""
    )
    csv = frontier.frame().to_csv(index=False).encode()
    name = f"frontier-{Path(frontier.model).name}.csv"
    return (
        aup + shown.about,
        *[gr.Column(visible=bool(frontier.prompts))] * 2,
        plots.sweep(frontier, across),
        save_bytes_to_cache(csv, name, str(storage().gradio)),
        frontier.table(),
        gr.Dropdown(choices=[point.setting.title for point in frontier.points]),
    )


def redraw(shown: Shown, across: str):
    """Draw the chart against another axis."""
    return plots.sweep(shown.frontier, across)


def pick(event: gr.SelectData) -> str:
    """Return the first cell of the selected row."""
    return event.row_value[0]


def look(shown: Shown, title: str | None):
    """List the answers of a point: the wrong ones, or else those that differ from AR's, or else all."""
    point = shown.point(title)
    if point is None:
        return gr.Column(visible=False), gr.skip(), gr.skip(), gr.skip()
    counts = {kind: len(chosen(point)) for kind, chosen in KINDS.items()}
    kind = next((kind for kind, count in counts.items() if count), "all")
    choices = [(f"{kind} ({count})", kind) for kind, count in counts.items()]
    return gr.Column(visible=True), gr.Radio(choices, value=kind), *list_answers(shown, title, kind)


def list_answers(shown: Shown, title: str | None, kind: str):
    """List the answers of one kind, and their prompts for the choice of one."""
    point = shown.point(title)
    prompts = [shown.frontier.prompts[one.number] for one in KINDS[kind](point)]
    rows = zip(prompts, KINDS[kind](point))
    rows = [{"prompt": prompt, "answer": one.text or "", "graded": graded(one)} for prompt, one in rows]
    return DataFrame(rows, columns=["prompt", "answer", "graded"]), gr.Dropdown(choices=prompts, value=None)


def graded(one: Outcome) -> str:
    where = "" if one.leaves is None else f", differs from AR at token {one.leaves + 1}"
    return ("✓ right" if one.right else "✗ wrong") + where


class Controls:
    """The controls beside the chart."""

    def __init__(self):
        self.model = gr.Dropdown([], label="Model", elem_id="frontier-model")
        self.tasks = gr.Dropdown([], label="Tasks", elem_id="frontier-tasks")
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
        self.buttons = RunButtons("frontier-", "Measure here")
        self.said = gr.Markdown("Runs in the background; races have priority.", elem_id="frontier-said")
        self.place = gr.Markdown(elem_id="frontier-place")


class Results:
    """The chart, the table of points, and the answers of a chosen point."""

    def __init__(self, page: Page):
        page.shown.render()
        with gr.Column(visible=False) as self.drawn:
            with gr.Row(elem_classes="level"):
                self.across = gr.Radio(
                    ACROSS, value=ACROSS[0], label="Accuracy against", scale=5, elem_id="frontier-across"
                )
                self.csv = gr.DownloadButton("CSV", min_width=80, elem_id="frontier-csv")
            self.chart = gr.Plot(show_label=False, elem_id="frontier-chart")
        self.about = gr.Markdown(elem_id="frontier-about")
        with gr.Column(visible=False) as self.listed:
            self.table = text_table("frontier-table", "Points")
            with gr.Row(elem_classes="level"):
                page.point.render()
                page.open_race.render()
        with gr.Column(visible=False) as self.behind:
            self.kind = gr.Radio([], label="Answers of this point", elem_id="frontier-kind")
            self.answers = text_table("frontier-answers", "Answers", ["38%", "38%", "24%"])
            with gr.Row(elem_classes="level"):
                page.prompt.render()
                page.race_prompt.render()


def build(page: Page, tab: gr.Tab) -> None:
    """Build the tab's components and events; the Race tab reacts to the point chosen in it."""
    gr.Markdown(INTRODUCTION, elem_classes="intro")
    with gr.Row(elem_id="frontier-page"):
        with gr.Column(scale=2, min_width=280):
            c = Controls()
        with gr.Column(scale=7, min_width=640):
            r = Results(page)

    chosen, shown = [c.model, c.tasks], [page.shown, page.point]
    # In the queue: Gradio's page hears of a changed state from queued events only.
    tab.select(opened, [*chosen, page.model], [*chosen, *shown], **MAY_WARN)
    c.model.input(choose, chosen, [c.tasks, *shown], **MAY_WARN)
    c.tasks.input(recorded, chosen, shown, **MAY_WARN)
    c.buttons.on(
        [c.buttons.run.click],
        in_queue(measure, 3, SWEEPS),
        [c.model, c.tasks, c.limit, c.taus, c.criteria],
        [*shown, c.said, c.place],
        model=c.model,
        **MAY_WARN,
    )
    page.shown.change(
        draw,
        [page.shown, r.across],
        [r.about, r.drawn, r.listed, r.chart, r.csv, r.table, page.point],
        **LIVE,
    )
    r.across.input(redraw, [page.shown, r.across], r.chart, **LIVE)
    r.table.select(pick, None, page.point, **LIVE)
    answers = [r.answers, page.prompt]
    page.point.change(look, shown, [r.behind, r.kind, *answers], **LIVE)
    r.kind.input(list_answers, [*shown, r.kind], answers, **LIVE)
    r.answers.select(pick, None, page.prompt, **LIVE)
