"""The Train tab: a visitor watches a small model learn MARS, and then races it."""

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import gradio as gr
from pandas import DataFrame

from mars_demo.markdown import table
from mars_demo.training import watching
from mars_demo.training.watching import PRESETS
from mars_demo.ui import models
from mars_demo.ui.board import Board, Number
from mars_demo.ui.components.curves import Curves
from mars_demo.ui.components.stage import Stage
from mars_demo.ui.controls import LIVE, QUIET, warn
from mars_demo.ui.gpu import on_gpu, seconds
from mars_demo.ui.tabs import Page
from mars_demo.ui.tabs.race import PROMPTS

TITLE = "Train"
BASE = "ar-tiny"
STEPS_VARIABLE = "MARS_DEMO_TRAIN_STEPS"  # a hosted Space can allow fewer steps, or none
CURVE_PROMPTS = 12
STEP, LOOKS = 4, 1000  # in forwards: how long a step takes, and the answers in between
TAUS = (1.0, 0.95, 0.8, 0.6, 0.4)  # of the curve at the end


def step_limit() -> int:
    """How many steps a training may have here; 0 where training is switched off."""
    text = os.environ.get(STEPS_VARIABLE, "").strip()
    return min(watching.MAX_STEPS, int(text)) if text.isdigit() else watching.MAX_STEPS


class Session(Board):
    """What a visitor may change while their training runs, and what came out of it."""

    paused = Number(False)
    pace = Number(1.0)

    def __init__(self):
        super().__init__()
        self.base: str | None = None
        self.data = "tasks"
        self.trained: str | None = None
        self.folder: str | None = None

    def wait(self) -> None:
        while self.paused and not self.stopped:
            time.sleep(0.05)


# ----------------------------------------------------------------------------------- the training


def fit(
    base: str,
    objective: str,
    block_size: int,
    sft_weight: float,
    data: str,
    steps: int,
    learning_rate: float,
    prompt: str,
    session: Session,
) -> Iterator[tuple]:
    """Train; yields the growing record of the training, and the button that pauses it."""
    session.base, session.trained, session.folder = base, None, None
    folder, name = Path(tempfile.mkdtemp(prefix="mars-")), f"mine-{secrets.token_hex(3)}"
    try:
        recipe = _recipe(objective, block_size, sft_weight, data, steps, learning_rate)
        session.data = recipe.data
        for text, label in _watched(base, recipe, prompt, session, folder, name):
            yield text, gr.Button(label, interactive=True) if label else gr.skip()
        session.trained, session.folder = models.know_trained(name, str(folder)), str(folder)
    except ValueError as error:
        warn(error)
        yield gr.skip(), gr.skip()
    finally:  # also when the visitor has left
        if session.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


def _recipe(
    objective: str, block_size: float, sft_weight: float, data: str, steps: float, learning_rate: float
):
    limit = step_limit()
    if not limit:
        raise ValueError("Training is switched off here; run the app on your own machine to train.")
    if not 1 <= steps <= limit:
        raise ValueError(f"The number of steps must be from 1 to {limit}, not {steps:g}.")
    seed = secrets.randbelow(2**31)
    return watching.recipe(objective, block_size, sft_weight, data, steps, learning_rate, seed)


def _longest(base: str, recipe, *_) -> int:
    return seconds(recipe.steps * STEP + LOOKS)


@on_gpu(_longest)
def _watched(base: str, recipe, prompt: str, session: Session, folder: Path, name: str) -> Iterator[tuple]:
    """The growing record, and what the button that pauses is called now, if that changes."""
    checkpoint = models.fresh(base)
    lines = watching.watch(
        checkpoint,
        recipe,
        prompt,
        folder,
        name,
        pace=lambda: session.pace,
        stopped=lambda: session.stopped,
    )
    text, shown = "", 0.0
    with closing(lines):
        for line in lines:
            text += line
            if session.paused:  # only now: the step under way was finished first
                yield text, "Continue"
                session.wait()
                yield gr.skip(), "Pause"
            elif time.monotonic() - shown > 0.5:
                yield text, None
                shown = time.monotonic()
    models.serve_trained(watching.as_trained(checkpoint, recipe, name))
    yield text, None


def conclude(session: Session):
    """After a training: before and after in a table and a curve, and what to do with the result."""
    if session.trained is None:
        return gr.skip(), gr.skip(), gr.skip(), gr.skip()
    from mars_demo.views import plots

    before, after = _compared(session.base, session.trained, session.data)
    trained = models.load(session.trained)
    curves = {f"before: {session.base}": [replace(before, tau=None)], f"after: {trained.name}": after}
    rows = [
        {
            "model": name,
            "τ": None if row.tau is None else f"{row.tau:g}",
            "right answers": f"{row.accuracy:.0%} of {row.n}",
            "tokens per forward": f"{row.tokens_per_forward:.2f}",
        }
        for name, points in curves.items()
        for row in points
    ]
    archive = shutil.make_archive(str(Path(session.folder).with_name(trained.name)), "zip", session.folder)
    return (
        gr.Markdown(table(DataFrame(rows)), visible=True),
        gr.Plot(plots.frontier(curves), visible=True),
        gr.DownloadButton(value=archive, visible=True),
        gr.Button(visible=trained.objective == "mars"),
    )


@on_gpu(lambda *_: seconds((1 + len(TAUS)) * CURVE_PROMPTS * watching.MAX_NEW_TOKENS / 2))
def _compared(base: str, name: str, data: str) -> tuple:
    """An `accuracy.Row` of before, and one for each τ of after."""
    trained = models.load(name)
    taus = TAUS if trained.modes[0] != "ar" else TAUS[:1]
    before = watching.measure(models.fresh(base), data, 1.0, CURVE_PROMPTS, "ar")
    return before, [watching.measure(trained, data, tau, CURVE_PROMPTS) for tau in taus]


# ------------------------------------------------------------------------------ what events call


def choose(title: str):
    """The settings of a preset."""
    preset = next(preset for preset in PRESETS if preset["title"] == title)
    keys = ("objective", "block_size", "sft_weight", "data", "steps", "learning_rate", "note")
    return tuple(preset[key] for key in keys)


def begin(session: Session):
    session.paused = session.stopped = False
    session.pace = 1.0
    hidden = {"visible": False}
    return (
        gr.Button(interactive=False),
        gr.Button("Pause", interactive=True),
        gr.Button(interactive=True),
        gr.Slider(value=1.0),
        gr.Markdown(**hidden),
        gr.Plot(**hidden),
        gr.DownloadButton(**hidden),
        gr.Button(**hidden),
    )


def end():
    return gr.Button(interactive=True), gr.Button("Pause", interactive=False), gr.Button(interactive=False)


def pause(session: Session):
    """Pause, which waits for the step under way, or go on."""
    session.paused = not session.paused
    return gr.Button("Pausing" if session.paused else "Pause", interactive=not session.paused)


def stop(session: Session) -> None:
    session.stopped = True


def set_pace(session: Session, pace: float) -> None:
    session.pace = pace


def to_the_race(session: Session):
    """The trained model among the Race tab's models, chosen there."""
    choices = [*models.names(), session.trained]
    return gr.Dropdown(choices=choices, value=session.trained), gr.Tabs(selected="race")


def adopt(archive: str):
    """An uploaded checkpoint among the bases, chosen."""
    try:
        name = models.adopt(archive)
    except ValueError as error:
        warn(error)
        return gr.skip()
    return gr.Dropdown(choices=[*models.names(), name], value=name)


def list_bases(chosen: str | None):
    """The bases to choose from; asked when the tab is opened, so that the page does not wait for it."""
    if chosen:
        return gr.skip()
    names = models.names()
    return gr.Dropdown(choices=names, value=BASE if BASE in names else next(iter(names), None))


# ------------------------------------------------------------------------------------- the page


class Controls:
    """What stands beside the curves."""

    def __init__(self):
        first, limit = PRESETS[0], max(2, step_limit())
        self.preset = gr.Dropdown(
            [preset["title"] for preset in PRESETS], value=first["title"], label="Preset", elem_id="preset"
        )
        self.note = gr.Markdown(first["note"])
        with gr.Row():
            start = gr.Button("Train", variant="primary", scale=2, min_width=100, elem_id="train")
            halt = gr.Button("Pause", interactive=False, min_width=80, elem_id="pause")
            quit_ = gr.Button("Stop", interactive=False, min_width=70, elem_id="train-stop")
        self.buttons = [start, halt, quit_]
        self.pace = gr.Slider(
            0,
            3,
            1,
            step=0.05,
            label="Learning rate ×",
            info="Takes effect at the next step.",
            elem_id="pace",
        )
        self.objective = gr.Radio(
            [("MARS", "mars"), ("AR", "ar"), ("Block diffusion", "block-diffusion")],
            value=first["objective"],
            label="Objective",
            info="AR (autoregressive) is ordinary fine-tuning, one token per forward.",
        )
        self.block_size = gr.Slider(
            2,
            16,
            first["block_size"],
            step=1,
            label="Block size B",
            info="Tokens ahead that it learns to predict.",
        )
        self.sft_weight = gr.Slider(
            0,
            2,
            first["sft_weight"],
            step=0.1,
            label="λ, weight of the SFT loss",
            info="On the clean stream; it keeps one-token decoding alive.",
        )
        self.data = gr.Dropdown(list(watching.DATA), value=first["data"], label="Data")
        self.steps = gr.Slider(1, limit, min(first["steps"], limit), step=1, label="Steps", elem_id="steps")
        self.learning_rate = gr.Number(
            first["learning_rate"],
            label="Learning rate",
            info=f"For AdamW; Muon trains the hidden matrices at {watching.MUON} times this rate.",
        )
        self.base = gr.Dropdown([], label="Base", elem_id="base")
        self.upload = gr.UploadButton("Upload a base (zip)", file_types=[".zip"], elem_id="upload")

    @property
    def recipe(self) -> list:
        return [
            self.objective,
            self.block_size,
            self.sft_weight,
            self.data,
            self.steps,
            self.learning_rate,
        ]


class Results:
    """The training while it runs, and what came out of it."""

    def __init__(self):
        watched = next(example["prompt"] for example in PROMPTS if example["model"] == models.TINY)
        self.prompt = gr.Textbox(watched, label="Prompt to watch", lines=2, elem_id="watched")
        self.curves = Curves(stage="growing")
        Stage(shelf=False, empty="The recorded training is being loaded.", elem_id="growing")
        self.table = gr.Markdown(visible=False, elem_id="before-after")
        self.plot = gr.Plot(visible=False, show_label=False)
        with gr.Row():
            self.race_it = gr.Button("Use it in the Race tab", visible=False, elem_id="race-it")
            self.archive = gr.DownloadButton("Download the checkpoint", visible=False, elem_id="archive")

    @property
    def outcome(self) -> list:
        return [self.table, self.plot, self.archive, self.race_it]


def build(page: Page, tab: gr.Tab) -> None:
    """The tab's components and events."""
    session = gr.State(Session())
    with gr.Row():
        with gr.Column(scale=2, min_width=280):
            c = Controls()
        with gr.Column(scale=7, min_width=640):
            results = Results()

    tab.select(list_bases, c.base, c.base, **QUIET)
    c.preset.input(choose, c.preset, [*c.recipe, c.note], **QUIET)
    c.upload.upload(adopt, c.upload, c.base, show_progress="hidden", api_visibility="private")
    _train(c, results, session)
    results.race_it.click(to_the_race, session, [page.model, page.tabs], **QUIET)


def _train(c: Controls, results: Results, session: gr.State) -> None:
    """What starts a training, and what acts on one that runs."""
    start, halt, quit_ = c.buttons
    start.click(begin, session, [*c.buttons, c.pace, *results.outcome], **QUIET).then(
        fit,
        [c.base, *c.recipe, results.prompt, session],
        [results.curves, halt],
        concurrency_id="training",
        concurrency_limit=1,
        show_progress="minimal",
        show_progress_on=results.prompt,
        api_visibility="private",
    ).then(
        conclude,
        session,
        results.outcome,
        concurrency_id="model",
        show_progress_on=results.prompt,
        api_visibility="private",
    ).then(end, None, c.buttons, **QUIET)
    halt.click(pause, session, halt, **QUIET)
    quit_.click(stop, session, None, **QUIET)
    c.pace.input(set_pace, [session, c.pace], None, **LIVE)
