"""The Train tab: live training of a small MARS model."""

import math
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import gradio as gr

from mars_demo.core.limits import LIMITS
from mars_demo.core.names import BASE, TINY
from mars_demo.evaluation import trainings
from mars_demo.evaluation.training_record import PROBE_PROMPTS, probe_questions
from mars_demo.evaluation.trainings import PRESETS, RECIPE
from mars_demo.show.scripts import call
from mars_demo.ui.controls import (
    IN_BROWSER,
    LIVE,
    MAY_WARN,
    QUIET,
    RunButtons,
    in_queue,
)
from mars_demo.ui.drawing import Drawing
from mars_demo.ui.examples import EXAMPLES
from mars_demo.ui.hosting import archive, gpu
from mars_demo.ui.hosting.registry import MODELS, Trained
from mars_demo.ui.stage import Stage
from mars_demo.ui.tabs import Page
from mars_demo.ui.training import MINUTE, Session, watched

TITLE = "Train"
# Start the one download, and hide its button.
DOWNLOAD = """(url) => {
    Object.assign(document.createElement("a"), { href: url, download: "" }).click();
    return { __type__: "update", visible: false };
}"""
PAUSE_OFF = {"value": "Pause", "interactive": False}


# ---------------------------------------------------------------------------- settings while it runs


def pause(session: Session):
    """Pause after the current step, or continue."""
    session.paused = not session.paused
    return gr.Button("Pausing" if session.paused else "Pause", interactive=not session.paused)


def set_pace(session: Session, pace: float) -> None:
    session.pace = pace


# ------------------------------------------------------------------------------------- the page


class TrainControls:
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
        self.recipe = [getattr(self, name) for name in RECIPE]

    def choose(self, title: str) -> dict:
        """Set the controls to a preset."""
        preset = next(preset for preset in PRESETS if preset["title"] == title)
        return {getattr(self, name): preset[name] for name in (*RECIPE, "note")}

    def list_bases(self, chosen: str | None):
        """List the bases when the tab is first opened, when the model code is imported."""
        if chosen:
            return gr.skip()
        names = MODELS.names()
        return gr.Dropdown(choices=names, value=BASE if BASE in names else names[0])


class Training:
    """The training in progress, and its result."""

    def __init__(self, controls: TrainControls):
        self.controls = controls
        self.prompt = gr.Textbox(
            EXAMPLES[TINY][0]["prompt"], label="Watched prompt", lines=2, elem_id="watched"
        )
        constants = {"stage": "growing", "recordings": trainings.training_index()}
        self.curves = Drawing(
            "curves", constants=constants, server_functions=[trainings.training_recording]
        )
        Stage(empty="The recorded training is being loaded.", elem_id="growing")
        with gr.Row():
            self.race_it = gr.Button("Use it in the Race tab", visible=False, elem_id="race-it")
            self.archive = gr.Button("Download the checkpoint, once", visible=False, elem_id="archive")
        self.url = gr.Textbox(visible="hidden", container=False)  # of the download
        self.results = [self.race_it, self.archive]

    def fit(self, base: str, prompt: str, *values) -> Iterator[dict]:
        """Train; yield the updates of the page."""
        *recipe, session = values
        session.trained, session.paused, session.pace = None, False, 1.0
        pause, hidden = self.controls.pause, dict.fromkeys(self.results, gr.update(visible=False))
        yield {self.controls.pace: 1.0, pause: gr.Button("Pause", interactive=True), **hidden}
        name = ""
        try:
            settings = trainings.training_settings(*recipe, seed=secrets.randbelow(2**31))
            name = MODELS.reserve()
            session.until = time.monotonic() + MINUTE * LIMITS.train_minutes
            with TemporaryDirectory() as folder:
                for text, label in watched(base, settings, prompt, session, Path(folder), name):
                    changed = {pause: gr.Button(label, interactive=True)} if label else {}
                    yield {self.curves: text} | changed
                if session.is_over:
                    gr.Info(f"Stopped after {LIMITS.train_minutes} minutes, the limit of a training here.")
                model = MODELS.keep(name, Path(folder), "cpu" if gpu.LENT else MODELS.device)
            session.trained, session.data = name, settings["data"]
        except Exception:
            yield {pause: gr.Button(**PAUSE_OFF)}
            raise
        finally:  # also when the visitor has left
            session.until = math.inf
            if session.left:
                MODELS.delete(name)
        if not session.left:
            # With the complete record again: of several results at once, the page shows only the last one.
            yield {self.curves: text} | self._offered(model)

    def _offered(self, model: Trained) -> dict:
        """Offer the trained model."""
        return {
            self.controls.pause: gr.Button(**PAUSE_OFF),
            self.archive: gr.Button(visible=True),
            self.url: archive.url_of(model),
            self.race_it: gr.Button(visible=model.checkpoint.objective == "mars"),
        }


def to_the_race(session: Session):
    """Open the Race tab with the trained model, and with a held-out prompt of its task."""
    prompt = probe_questions(session.data, PROBE_PROMPTS)[0].prompt
    model = gr.Dropdown(choices=MODELS.choices(), value=session.trained)
    return gr.Tabs(selected="race"), model, prompt


def build(page: Page, tab: gr.Tab) -> None:
    """Build the tab's components and events."""
    with gr.Row():
        with gr.Column(scale=2, min_width=280):
            c = TrainControls()
        with gr.Column(scale=7, min_width=640):
            training = Training(c)

    tab.select(c.list_bases, c.base, c.base, **QUIET)
    c.preset.input(c.choose, c.preset, [*c.recipe, c.note], **LIVE)
    session = c.buttons.knobs
    c.buttons.on(
        c.buttons.run.click,
        training.fit,
        [c.base, training.prompt, *c.recipe],
        [training.curves, c.pause, c.pace, training.url, *training.results],
        **in_queue("training", training.prompt),
    )
    c.pause.click(pause, session, c.pause, **QUIET)
    c.pace.input(set_pace, [session, c.pace], None, **LIVE)
    training.archive.click(None, training.url, training.archive, js=DOWNLOAD, **IN_BROWSER)
    to_race = [page.tabs, page.model, page.text]
    taken = training.race_it.click(to_the_race, session, to_race, **MAY_WARN)
    taken.success(None, None, None, js=call("showStage"), **IN_BROWSER)
