"""The Train tab: live training of a small MARS model, with results before and after."""

import itertools
import math
import secrets
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import gradio as gr
from gradio.processing_utils import save_file_to_cache
from pandas import DataFrame

from mars_demo.decoding.request import Request
from mars_demo.evaluation import accuracy, training_record, trainings
from mars_demo.evaluation.trainings import PRESETS
from mars_demo.limits import LIMITS
from mars_demo.markdown import table
from mars_demo.models.runtime.captured import captured
from mars_demo.scheduler import LONG
from mars_demo.training.config import MarsConfig
from mars_demo.ui import models
from mars_demo.ui.components.drawing import Drawing
from mars_demo.ui.components.stage import Stage
from mars_demo.ui.controls import LIVE, MAY_WARN, QUIET, Knobs, RunButtons, or_warn, warn
from mars_demo.ui.hosting import owned, visitors
from mars_demo.ui.hosting.gpu import on_gpu, seconds
from mars_demo.ui.hosting.shared_state import Number
from mars_demo.ui.hosting.storage import storage
from mars_demo.ui.tabs import Page
from mars_demo.ui.tabs.race import PROMPTS
from mars_demo.views import plots

TITLE = "Train"
CURVE_PROMPTS = 12
STEP, LOOKS = 4, 1000  # the duration of a step, and of all answers between steps, in forwards
MINUTE = 60  # seconds
TAUS = (1.0, 0.95, 0.8, 0.6, 0.4)  # of the curve at the end
EVERY = 0.5  # seconds between two updates of the page, and between two checks while paused
COPIES = 3  # of the weights on the disk: the folder, the zip, and Gradio's copy of the zip


OUTPUTS = ("curves", "pause", "pace", "table", "plot", "archive", "race_it")  # in the event's order
PAUSE_OFF = {"value": "Pause", "interactive": False}


class Session(Knobs):
    """The settings that a visitor may change while their training runs, and its result."""

    paused = Number(False)
    pace = Number(1.0)

    def __init__(self):
        super().__init__()
        self.trained: str | None = None
        self.left = False

    def leave(self) -> None:
        self.left = self.stopped = True


def _page(**updates) -> list:
    """Return the event's outputs: some updates, no change for the others."""
    return [updates.get(name, gr.skip()) for name in OUTPUTS]


# ----------------------------------------------------------------------------------- the training


def fit(
    base, objective, block_size, sft_weight, data, steps, learning_rate, prompt, session: Session,
    request: gr.Request,
) -> Iterator[list]:  # fmt: skip
    """Train, then compare before and after; yield the updates of the page."""
    session.trained, session.paused, session.pace = None, False, 1.0
    visitors.at_leaving(request, session.leave)
    hidden = {name: gr.update(visible=False) for name in OUTPUTS[3:]}
    yield _page(pace=1.0, pause=gr.Button("Pause", interactive=True), **hidden)
    settings = (objective, block_size, sft_weight, data, steps, learning_rate)
    try:
        yield from or_warn(_trained(base, settings, prompt, session), _page(pause=gr.Button(**PAUSE_OFF)))
    except Exception:
        yield _page(pause=gr.Button(**PAUSE_OFF))
        raise


def _trained(base: str, settings: Sequence, prompt: str, session: Session) -> Iterator[list]:
    model = None
    try:
        settings = _settings(*settings)
        storage().require(COPIES * models.stored(base))
        model = owned.take_slot()
        session.until = time.monotonic() + MINUTE * LIMITS.train_minutes
        for text, label in _watched(base, settings, prompt, session, model.folder, model.name):
            pause = {"pause": gr.Button(label, interactive=True)} if label else {}
            yield _page(curves=text, **pause)
        if session.is_over:
            gr.Info(f"Stopped after {LIMITS.train_minutes} minutes, the limit of a training here.")
        models.keep_trained(model)
        session.trained = model.name
    finally:  # also when the visitor has left
        session.until = math.inf
        if model and (session.left or not model.ready):
            owned.drop(model)
    if not session.left:
        session.stopped = False
        yield from _concluded(text, base, settings["data"], model, session)


def _settings(objective, block_size, sft_weight, data, steps, learning_rate) -> dict:
    """Return the settings of a training with a new seed.

    Raises:
        ValueError: if a setting is out of range, or training is switched off.
    """
    if not LIMITS.train_steps:
        raise ValueError("Training is switched off here; run the app on your own machine to train.")
    seed = secrets.randbelow(2**31)
    return trainings.settings(objective, block_size, sft_weight, data, steps, learning_rate, seed)


def _longest(base: str, settings: dict, *_) -> int:
    return min(seconds(settings["max_steps"] * STEP + LOOKS), MINUTE * LIMITS.train_minutes)


@on_gpu(_longest, LONG)
def _watched(
    base: str, settings: dict, prompt: str, session: Session, folder: Path, name: str
) -> Iterator[tuple]:
    """Train; yield the growing record and, if it changes, the label of the pause button."""
    checkpoint, config = models.fresh(base), MarsConfig(str(folder), **settings)
    lines = training_record.watch(
        checkpoint, config, prompt, name, pace=lambda: session.pace, stopped=lambda: session.stopped
    )
    text, shown = "", 0.0
    with closing(lines):
        for line in lines:
            text += line
            if session.paused:  # checked between steps only
                yield text, "Continue"
                while session.paused and not session.stopped:
                    time.sleep(EVERY)
                    yield gr.skip(), "Continue"  # a visitor's departure is only noticed between results
                yield gr.skip(), "Pause"
            elif time.monotonic() - shown > EVERY:
                yield text, None
                shown = time.monotonic()
    trained = training_record.as_trained(checkpoint, config, name)
    owned.hold(name, replace(trained, captured=captured(trained.model)), folder)
    yield text, None


# ------------------------------------------------------------------------------- before and after


def _concluded(text: str, base: str, data: str, model: owned.Owned, session: Session) -> Iterator[list]:
    """Offer the trained model, then compare before and after until the visitor stops that or leaves."""
    archive = gr.DownloadButton(value=_zipped(model), visible=True)
    races = gr.Button(visible=model.checkpoint.objective == "mars")
    # With the complete record again: of several results at once, the page shows only the last one.
    yield _page(curves=text, pause=gr.Button(**PAUSE_OFF), archive=archive, race_it=races)
    shown, rows = 0.0, []
    for done, of, rows in _compared(base, model.name, data, session):
        if time.monotonic() - shown > EVERY:
            progress = f"{done} of {of} answers. Press Stop to skip the rest."
            yield _page(table=_measured(base, model.name, rows, progress))
            shown = time.monotonic()
    progress = "stopped early." if session.stopped else ""
    measured = _measured(base, model.name, rows, progress)
    yield _page(table=measured, plot=_curve(base, model.name, rows))


def _zipped(model: owned.Owned) -> str:
    """Write the checkpoint as a zip into Gradio's folder, from which it is deleted with the model."""
    archive = model.folder.with_name(f"{model.name}.zip")
    with zipfile.ZipFile(archive, "w") as zipped:  # uncompressed: weights would not shrink
        for file in sorted(model.folder.rglob("*")):
            zipped.write(file, file.relative_to(model.folder))
    served = save_file_to_cache(archive, str(storage().gradio))
    archive.unlink()
    model.files.append(Path(served))
    return served


def _measured(base: str, name: str, rows: list, progress: str) -> gr.Markdown:
    """Show the measured rows, beginning with that of the base, and the progress."""
    cells = [
        {
            "model": f"after: {name}" if number else f"before: {base}",
            "τ": None if not number else f"{row.tau:g}",
            "accuracy": f"{row.accuracy:.0%} of {row.n}",
            "tokens per forward": f"{row.tokens_per_forward:.2f}",
        }
        for number, row in enumerate(rows)
    ]
    shown = table(DataFrame(cells)) if cells else ""
    words = f"Comparison before and after: {progress}" if progress else ""
    return gr.Markdown(f"{shown}\n\n{words}", visible=True)


def _curve(base: str, name: str, rows: list):
    if len(rows) < 2:
        return gr.skip()
    before, *after = rows
    curves = {f"before: {base}": [replace(before, tau=None)], f"after: {name}": after}
    return gr.Plot(plots.frontier(curves), visible=True)


@on_gpu(lambda *_: seconds((1 + len(TAUS)) * CURVE_PROMPTS * training_record.MAX_NEW_TOKENS / 2), LONG)
def _compared(base: str, name: str, data: str, session: Session) -> Iterator[tuple[int, int, list]]:
    """Yield after each answer: the number of answers, their total, and the `accuracy.Row`s so far.

    The first row is the base; the others are the trained model, one for each τ.
    """
    trained, examples = models.load(name), training_record.held_out(data, CURVE_PROMPTS)
    taus = TAUS if trained.modes[0] != "ar" else TAUS[:1]
    of = (1 + len(taus)) * len(examples)
    done, rows = 0, []
    parts = [accuracy.measuring(models.fresh(base), examples, Request("ar", 1.0))]
    parts += [accuracy.measuring(trained, examples, Request(tau=tau)) for tau in taus]
    for row in itertools.chain.from_iterable(parts):
        done += row is None
        rows += [] if row is None else [row]
        yield done, of, rows
        if session.stopped:
            return


# --------------------------------------------------------------------------------- event handlers


def choose(title: str):
    """Return the settings of a preset."""
    preset = next(preset for preset in PRESETS if preset["title"] == title)
    keys = ("objective", "block_size", "sft_weight", "data", "steps", "learning_rate", "note")
    return tuple(preset[key] for key in keys)


def pause(session: Session):
    """Pause after the current step, or continue."""
    session.paused = not session.paused
    return gr.Button("Pausing" if session.paused else "Pause", interactive=not session.paused)


def set_pace(session: Session, pace: float) -> None:
    session.pace = pace


def to_the_race(session: Session):
    """Choose the trained model in the Race tab."""
    if owned.trained(session.trained) is None:
        warn(ValueError(f"The trained model was deleted after {LIMITS.kept} minutes."))
        return gr.skip(), gr.skip()
    choices = [*models.names(), session.trained]
    return gr.Dropdown(choices=choices, value=session.trained), gr.Tabs(selected="race")


def list_bases(chosen: str | None):
    """List the bases when the tab is first opened, so that the page does not wait for the model code."""
    if chosen:
        return gr.skip()
    names = models.names()
    return gr.Dropdown(
        choices=names, value=models.BASE if models.BASE in names else next(iter(names), None)
    )


# ------------------------------------------------------------------------------------- the page


class Controls:
    """The controls beside the curves."""

    def __init__(self):
        first, limit = PRESETS[0], max(2, LIMITS.train_steps)
        self.preset = gr.Dropdown(
            [preset["title"] for preset in PRESETS], value=first["title"], label="Preset", elem_id="preset"
        )
        self.note = gr.Markdown(first["note"])
        gr.Markdown("A new training replaces the model of your last one.", elem_id="one-model")
        self.pause = gr.Button(**PAUSE_OFF, min_width=80, elem_id="pause", render=False)
        self.buttons = RunButtons("train-", "Train", Session(), self.pause)
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
            info="Masks per block: the future tokens that the model learns to predict.",
        )
        self.sft_weight = gr.Slider(
            0,
            2,
            first["sft_weight"],
            step=0.1,
            label="λ, weight of the SFT loss",
            info="On the clean stream; it preserves one-token decoding.",
        )
        self.data = gr.Dropdown(list(trainings.DATA), value=first["data"], label="Data")
        self.steps = gr.Slider(1, limit, min(first["steps"], limit), step=1, label="Steps", elem_id="steps")
        self.learning_rate = gr.Number(
            first["learning_rate"],
            label="Learning rate",
            info=f"For AdamW; Muon trains the hidden matrices at {trainings.MUON} times this rate.",
        )
        self.base = gr.Dropdown([], label="Base", elem_id="base")

    @property
    def recipe(self) -> list:
        return [self.objective, self.block_size, self.sft_weight, self.data, self.steps, self.learning_rate]


class Results:
    """The training in progress, and its result."""

    def __init__(self):
        watched = next(example["prompt"] for example in PROMPTS if example["model"] == models.TINY)
        self.prompt = gr.Textbox(watched, label="Watched prompt", lines=2, elem_id="watched")
        constants = {"stage": "growing", "recordings": trainings.index()}
        self.curves = Drawing("curves", constants=constants, server_functions=[trainings.recording])
        Stage(shelf=False, empty="The recorded training is being loaded.", elem_id="growing")
        self.table = gr.Markdown(visible=False, elem_id="before-after")
        self.plot = gr.Plot(visible=False, show_label=False)
        with gr.Row():
            self.race_it = gr.Button("Use it in the Race tab", visible=False, elem_id="race-it")
            self.archive = gr.DownloadButton("Download the checkpoint", visible=False, elem_id="archive")


def build(page: Page, tab: gr.Tab) -> None:
    """Build the tab's components and events."""
    with gr.Row():
        with gr.Column(scale=2, min_width=280):
            c = Controls()
        with gr.Column(scale=7, min_width=640):
            results = Results()

    tab.select(list_bases, c.base, c.base, **QUIET)
    c.preset.input(choose, c.preset, [*c.recipe, c.note], **LIVE)
    session, r = c.buttons.knobs, results
    c.buttons.on(
        [c.buttons.run.click],
        fit,
        [c.base, *c.recipe, r.prompt],
        [r.curves, c.pause, c.pace, r.table, r.plot, r.archive, r.race_it],
        concurrency_id="training",
        concurrency_limit=1,
        show_progress="minimal",
        show_progress_on=r.prompt,
        api_visibility="private",
    )
    c.pause.click(pause, session, c.pause, **QUIET)
    c.pace.input(set_pace, [session, c.pace], None, **LIVE)
    r.race_it.click(to_the_race, session, [page.model, page.tabs], **MAY_WARN)
