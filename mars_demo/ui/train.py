"""The Train tab: a small model learns MARS while one watches, and then joins the race."""

import html
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

from mars_demo import watching
from mars_demo.ui import models
from mars_demo.ui.curves import Curves
from mars_demo.ui.race import PROMPTS
from mars_demo.ui.stage import Stage
from mars_demo.watching import PRESETS

BASE = "ar-tiny"
STEPS_VARIABLE = "MARS_DEMO_TRAIN_STEPS"  # a hosted Space can allow fewer steps, or none
CURVE_PROMPTS = 12
TAUS = (1.0, 0.95, 0.8, 0.6, 0.4)  # of the curve at the end


def step_limit() -> int:
    """How many steps a training may have here; 0 where training is switched off."""
    text = os.environ.get(STEPS_VARIABLE, "").strip()
    return min(watching.MAX_STEPS, int(text)) if text.isdigit() else watching.MAX_STEPS


class Session:
    """What a visitor may change while their training runs, and what came out of it."""

    def __init__(self):
        self.paused = self.stopped = False
        self.pace = 1.0
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
    folder = Path(tempfile.mkdtemp(prefix="mars-"))
    try:
        recipe = _recipe(objective, block_size, sft_weight, data, steps, learning_rate)
        session.data = recipe.data
        yield from _watched(base, recipe, prompt, session, folder)
    except ValueError as error:
        gr.Warning(html.escape(str(error)))
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


def _watched(base: str, recipe, prompt: str, session: Session, folder: Path) -> Iterator[tuple]:
    checkpoint = models.fresh(base)
    name = f"mine-{secrets.token_hex(3)}"
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
                yield text, gr.Button("Continue", interactive=True)
                session.wait()
                yield gr.skip(), gr.Button("Pause")
            elif time.monotonic() - shown > 0.5:
                yield text, gr.skip()
                shown = time.monotonic()
    session.trained = models.keep(watching.as_trained(checkpoint, recipe, name))
    session.folder = str(folder)
    yield text, gr.skip()


def conclude(session: Session):
    """After a training: before and after in a table and a curve, and what to do with the result."""
    if session.trained is None:
        return gr.skip(), gr.skip(), gr.skip(), gr.skip()
    from mars_demo import figures

    base, trained = models.fresh(session.base), models.load(session.trained)
    taus = TAUS if trained.modes[0] != "ar" else TAUS[:1]
    before = watching.measure(base, session.data, 1.0, CURVE_PROMPTS, "ar")
    after = [watching.measure(trained, session.data, tau, CURVE_PROMPTS) for tau in taus]
    curves = {f"before: {base.name}": [replace(before, tau=None)], f"after: {trained.name}": after}
    rows = ["| | τ | right answers | tokens per forward |", "|---|---|---|---|"]
    for name, points in curves.items():
        for row in points:
            tau = "–" if row.tau is None else f"{row.tau:g}"
            rows.append(
                f"| {name} | {tau} | {row.accuracy:.0%} of {row.n} | {row.tokens_per_forward:.2f} |"
            )
    archive = shutil.make_archive(str(Path(session.folder).with_name(trained.name)), "zip", session.folder)
    return (
        gr.Markdown("\n".join(rows), visible=True),
        gr.Plot(figures.frontier(curves), visible=True),
        gr.DownloadButton(value=archive, visible=True),
        gr.Button(visible=trained.objective == "mars"),
    )


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
    choices = [*models.racers(), session.trained]
    return gr.Dropdown(choices=choices, value=session.trained), gr.Tabs(selected="race")


# ------------------------------------------------------------------------------------- the page


def tab(tabs: gr.Tabs, page: gr.Tab, race_model: gr.Dropdown) -> None:
    """The tab's components and events; `race_model` is the Race tab's choice of models."""
    session = gr.State(Session())
    limit = step_limit()
    first = PRESETS[0]
    with gr.Row():
        with gr.Column(scale=2, min_width=280):
            preset = gr.Dropdown(
                [preset["title"] for preset in PRESETS],
                value=first["title"],
                label="Preset",
                elem_id="preset",
            )
            note = gr.Markdown(first["note"])
            with gr.Row():
                start = gr.Button("Train", variant="primary", scale=2, min_width=100, elem_id="train")
                halt = gr.Button("Pause", interactive=False, min_width=80, elem_id="pause")
                quit_ = gr.Button("Stop", interactive=False, min_width=70, elem_id="train-stop")
            pace = gr.Slider(
                0,
                3,
                1,
                step=0.05,
                label="Learning rate ×",
                info="Takes effect at the next step.",
                elem_id="pace",
            )
            objective = gr.Radio(
                [("MARS", "mars"), ("AR", "ar"), ("Block diffusion", "block-diffusion")],
                value=first["objective"],
                label="Objective",
            )
            block_size = gr.Slider(2, 16, first["block_size"], step=1, label="Block size B")
            sft_weight = gr.Slider(
                0, 2, first["sft_weight"], step=0.1, label="λ, weight of the clean stream's loss"
            )
            data = gr.Dropdown(list(watching.DATA), value=first["data"], label="Data")
            steps = gr.Slider(
                1, max(2, limit), min(first["steps"], max(2, limit)), step=1, label="Steps", elem_id="steps"
            )
            learning_rate = gr.Number(
                first["learning_rate"],
                label="Learning rate",
                info=f"Of AdamW; Muon trains the hidden matrices at {watching.MUON} times that.",
            )
            base = gr.Dropdown(
                [],
                label="Base",
                info="Or the hub id of a small model.",
                allow_custom_value=True,
                elem_id="base",
            )
            upload = gr.UploadButton("Upload a base (zip)", file_types=[".zip"], elem_id="upload")
        with gr.Column(scale=7, min_width=640):
            watched = next(example["prompt"] for example in PROMPTS if example["model"] == models.TINY)
            prompt = gr.Textbox(watched, label="Prompt to watch", lines=2, elem_id="watched")
            curves = Curves(stage="growing")
            Stage(shelf=False, empty="The recorded training is being loaded.", elem_id="growing")
            table = gr.Markdown(visible=False, elem_id="before-after")
            plot = gr.Plot(visible=False, show_label=False)
            with gr.Row():
                race_it = gr.Button("Use it in the Race tab", visible=False, elem_id="race-it")
                archive = gr.DownloadButton("Download the checkpoint", visible=False, elem_id="archive")

    at_once = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
    buttons, results = [start, halt, quit_], [table, plot, archive, race_it]
    page.select(offer, base, base, **at_once)
    preset.input(
        choose, preset, [objective, block_size, sft_weight, data, steps, learning_rate, note], **at_once
    )
    start.click(begin, session, [*buttons, pace, *results], **at_once).then(
        fit,
        [base, objective, block_size, sft_weight, data, steps, learning_rate, prompt, session],
        [curves, halt],
        concurrency_id="training",
        concurrency_limit=1,
        show_progress="minimal",
        show_progress_on=prompt,
        api_visibility="private",
    ).then(
        conclude,
        session,
        results,
        concurrency_id="model",
        show_progress_on=prompt,
        api_visibility="private",
    ).then(end, None, buttons, **at_once)
    upload.upload(adopt, upload, base, show_progress="hidden", api_visibility="private")
    halt.click(pause, session, halt, **at_once)
    quit_.click(stop, session, None, **at_once)
    pace.input(set_pace, [session, pace], None, trigger_mode="always_last", **at_once)
    race_it.click(to_the_race, session, [race_model, tabs], **at_once)


def adopt(archive: str):
    """An uploaded checkpoint among the bases, chosen."""
    try:
        name = models.adopt(archive)
    except ValueError as error:
        gr.Warning(html.escape(str(error)))
        return gr.skip()
    return gr.Dropdown(choices=[*models.names(), name], value=name)


def offer(chosen: str | None):
    """The bases to choose from; asked when the tab is opened, so that the page does not wait for it."""
    if chosen:
        return gr.skip()
    names = models.names()
    return gr.Dropdown(choices=names, value=BASE if BASE in names else next(iter(names), None))
