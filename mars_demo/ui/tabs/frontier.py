"""The Frontier tab: accuracy against speed, a point per setting, recorded or measured on the page."""

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import gradio as gr

from mars_demo.decoding.acceptance import CRITERIA
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import Frontier, parse_taus
from mars_demo.evaluation.journal import folder
from mars_demo.evaluation.sweep import Sweep, grid
from mars_demo.evaluation.task_sets import TASK_SETS
from mars_demo.scheduler import BACKGROUND, WAITING
from mars_demo.ui import models
from mars_demo.ui.controls import LIVE, MAY_WARN, QUIET, RunButtons
from mars_demo.ui.hosting.errors import or_warn
from mars_demo.ui.hosting.gpu import LONGEST, on_gpu
from mars_demo.ui.knobs import Knobs
from mars_demo.ui.queues import Queue, in_queue
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
worse. Each point is one setting, measured on the same prompts; the lines around it are 95% intervals over
prompts. **AR** writes one token per forward. **Lossless** verifies its own drafts, so its answers equal
AR's. In bfloat16, near ties may still differ on a GPU or a CPU with AMX, which is not measured, and did on
a CPU before products were padded. The table counts such answers.
"""
WAITS = "Waiting for a race or another run."
RECORDS = "python -m benchmarks.frontier --output assets/results/frontier.json"
SWEEPS = Queue()


# -------------------------------------------------------------------- the value of the component


def lines(frontier, name: str, about: str) -> Iterator[str]:
    """Yield a complete `evaluation.frontier.Frontier` as the value of the component."""
    yield heading(frontier, name, about)
    for point in frontier.points:
        yield point_line(frontier, point)
    yield end_line(frontier)


def heading(frontier, name: str, about: str) -> str:
    return _line({"results": name, "about": about, "model": frontier.model, "prompts": frontier.prompts})


def point_line(frontier, point) -> str:
    """Return the line of a point: its measurements and its answers."""
    alone = replace(frontier, points=(point,))
    [row], [answers] = alone.frame().to_dict("records"), alone.record()["points"]
    return _line(answers | row | {"faster_than_ar": frontier.faster(point)})


def end_line(frontier) -> str:
    files = {"json": json.dumps(frontier.record(), indent=1, ensure_ascii=False) + "\n"}
    csv = frontier.frame().to_csv(index=False)
    return _line({"done": True, "aup": frontier.aup()} | files | {"csv": csv})


def _line(record: dict[str, Any]) -> str:
    """Return a line of JSON, with null in place of NaN."""
    nan = {key: None for key, value in record.items() if isinstance(value, float) and math.isnan(value)}
    return json.dumps(record | nan, ensure_ascii=False) + "\n"


# ------------------------------------------------------------------------------ recorded results


def recorded(model: str, tasks: str) -> str:
    """Return the recorded points of a model on a task set, or a message that there are none."""
    record, frontiers = _recorded(model)
    if tasks in frontiers:
        frontier = frontiers[tasks]
        about = f"Recorded on {described(frontier)}. Source: {record['command']}, {frontier.machine}."
        return "".join(lines(frontier, f"Recorded: {model}, {frontier.title}", about))
    titles = ", ".join(frontier.title for frontier in frontiers.values())
    others = f" It has results for: {titles}." if titles else ""
    about = (
        f"No recorded results for {model} on these tasks.{others} "
        f"Press “Measure here”, or record results with {RECORDS}."
    )
    name = f"{model}: no recorded results"
    return _line({"results": name, "about": about, "model": model, "prompts": []})


def described(frontier) -> str:
    """Return the prompts, tasks and batch size of a frontier in words."""
    return f"{len(frontier.prompts)} prompts, {frontier.title}, in batches of {frontier.size}"


def _recorded(model: str) -> tuple[dict, dict]:
    """Return the file of recorded results, and a model's frontiers in it by task set."""
    record = results.read("frontier.json") or {"sweeps": []}
    read = [Frontier.read(each) for each in record["sweeps"] if each["model"] == model]
    return record, {frontier.tasks: frontier for frontier in read}


# --------------------------------------------------------------------------------- measured here


def measure(
    model: str, tasks: str, limit: float, taus: str, criteria: Sequence[str], knobs: Knobs
) -> Iterator[tuple]:
    """Sweep in the background; yield the growing value of the component, and the progress."""
    yield from or_warn(_drawn(model, tasks, limit, taus, criteria, knobs), (gr.skip(), "Not measured."))


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


def _drawn(
    model: str, tasks: str, limit: float, taus: str, criteria: Sequence[str], knobs: Knobs
) -> Iterator[tuple]:
    text, shown, frontier, settings = "", 0.0, None, 0
    limit, grid = checked(limit, taus)
    with closing(_swept(model, tasks, limit, grid, list(criteria), knobs)) as steps:
        for step in steps:
            if step is WAITING:
                yield gr.skip(), WAITS
            elif frontier is None:
                frontier, text = step, _begun(step)
                yield text, "Measuring."
            elif step.point:
                frontier = replace(frontier, points=(*frontier.points, step.point))
                text, settings = text + point_line(frontier, step.point), step.settings
                yield text, _progress(step)
            elif time.monotonic() - shown > EVERY:
                shown = time.monotonic()
                yield gr.skip(), _progress(step)
            if knobs.stopped:
                break
    if frontier is None:
        yield gr.skip(), "Stopped."
        return
    count = len(frontier.points)
    text += end_line(frontier) if count else ""
    whole = count > 0 and count == settings  # the time limit of a lent GPU may have ended the sweep
    ended = "Measured" if whole else "Stopped"
    yield text, f"{ended}: {count} point{'s' * (count != 1)} on {described(frontier)}."


def _begun(frontier) -> str:
    about = f"Measured on this page on {described(frontier)}. {frontier.machine}."
    return heading(frontier, f"Measured here: {frontier.model}, {frontier.title}", about)


def _progress(step) -> str:
    return (
        f"Point {step.number} of {step.settings}: {step.setting.title}; "
        f"{step.answered} of {step.prompts} prompts answered."
    )


@on_gpu(lambda *_: LONGEST, BACKGROUND)
def _swept(
    model: str, tasks: str, limit: int, taus: list[float], criteria: list[str], knobs: Knobs
) -> Iterator:
    """Yield the empty frontier, then each `Progress`, until the sweep ends or is stopped."""
    checkpoint = models.load(model)
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
    names = models.names()
    names += [raced] if raced and raced not in names else []  # the visitor's own model
    choices = [(task_set.title, name) for name, task_set in TASK_SETS.items()]
    if model:
        return gr.Dropdown(choices=names), gr.skip(), gr.skip()
    model = next((name for name in names if _recorded(name)[1]), names[0])
    tasks = next(iter(_recorded(model)[1]), next(iter(TASK_SETS)))
    return (
        gr.Dropdown(choices=names, value=model),
        gr.Dropdown(choices=choices, value=tasks),
        recorded(model, tasks),
    )


def choose(model: str, tasks: str):
    """Show another model's recorded results: on this task set, or else on the first that has any."""
    frontiers = _recorded(model)[1]
    tasks = tasks if tasks in frontiers or not frontiers else next(iter(frontiers))
    return tasks, recorded(model, tasks)


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


def build(page: Page, tab: gr.Tab) -> None:
    """Build the tab's components and events; the Race tab reacts to the points chosen in it."""
    gr.Markdown(INTRODUCTION, elem_classes="intro")
    with gr.Row(elem_id="frontier-page"):
        with gr.Column(scale=2, min_width=280):
            c = Controls()
        with gr.Column(scale=7, min_width=640):
            page.frontier.render()

    shown = [c.model, c.tasks, page.frontier]
    tab.select(opened, [c.model, c.tasks, page.model], shown, **QUIET)
    c.model.input(choose, shown[:2], [c.tasks, page.frontier], **LIVE)
    c.tasks.input(recorded, shown[:2], page.frontier, **LIVE)
    c.buttons.on(
        [c.buttons.run.click],
        in_queue(measure, 2, SWEEPS),
        [c.model, c.tasks, c.limit, c.taus, c.criteria],
        [page.frontier, c.said, c.place],
        model=c.model,
        **MAY_WARN,
    )
