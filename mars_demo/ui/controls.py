"""Controls, and settings of events, that several tabs share."""

import html
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gradio as gr

from mars_demo.ui.board import Board, Number

TAU = 0.95

# Settings of events: answered at once, outside of the queue; following a slider; only a script in the
# browser; running a model, one at a time.
QUIET = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
LIVE = {**QUIET, "trigger_mode": "always_last"}
IN_BROWSER = {"show_progress": "hidden", "api_visibility": "private"}
ON_MODEL = {"concurrency_id": "model", "concurrency_limit": 1, "api_visibility": "private"}


class Knobs(Board):
    """What a visitor may change while models run."""

    tau = Number(TAU)
    wait = Number(0)  # ms of slow motion after each forward

    def pause(self) -> None:
        """Slow motion. In short naps, so that a changed wait or a stop counts at once."""
        started = time.monotonic()
        while not self.stopped and (left := self.wait / 1000 - (time.monotonic() - started)) > 0:
            time.sleep(min(left, 0.02))


# ----------------------------------------------------------------------------------- components


def model_list(elem_id: str, **more: Any) -> gr.Dropdown:
    """A choice of models, filled once the models are known."""
    return gr.Dropdown([], label="Model", elem_id=elem_id, **more)


def tau_slider(elem_id: str, value: float = TAU, info: str | None = None) -> gr.Slider:
    return gr.Slider(0, 1, value, step=0.01, label="Threshold τ", info=info, elem_id=elem_id)


def run_and_stop(prefix: str = "", label: str = "Run") -> tuple[gr.Button, gr.Button]:
    """Side by side; their ids are `run` and `stop` after the prefix."""
    with gr.Row():
        run = gr.Button(label, variant="primary", scale=2, min_width=120, elem_id=f"{prefix}run")
        stop = gr.Button("Stop", interactive=False, min_width=80, elem_id=f"{prefix}stop")
    return run, stop


# --------------------------------------------------------------------------------------- events


def begin(knobs: Knobs, tau: float = TAU, wait: float = 0):
    """Before a run: the knobs as the page shows them; Run off, Stop on."""
    knobs.tau, knobs.wait, knobs.stopped = tau, wait, False
    return gr.Button(interactive=False), gr.Button(interactive=True)


def end():
    """After a run: Run on, Stop off."""
    return gr.Button(interactive=True), gr.Button(interactive=False)


def stop(knobs: Knobs) -> None:
    knobs.stopped = True


def set_tau(knobs: Knobs, tau: float) -> None:
    knobs.tau = tau


def set_wait(knobs: Knobs, wait: float) -> None:
    knobs.wait = wait


def on_run(
    starts: Sequence[Callable],
    buttons: tuple[gr.Button, gr.Button],
    work: Callable,
    inputs: list,
    outputs: Any,
    knobs: gr.State,
    settings: Sequence = (),
    before: tuple[Callable, Any] | None = None,
    **progress: Any,
) -> None:
    """Let events start `work`, which gets `inputs` and the knobs, and the second button stop it.

    settings: the components with the knobs' τ and wait. before: what is waited for first, by each visitor
    alone, with its inputs.
    """
    for start in starts:
        begun = start(begin, [knobs, *settings], buttons, **QUIET)
        if before:
            begun = begun.then(*before, None, concurrency_limit=None, **IN_BROWSER)
        begun.then(work, [*inputs, knobs], outputs, **ON_MODEL | progress).then(end, None, buttons, **QUIET)
    buttons[1].click(stop, knobs, None, **QUIET)


def or_warn(results: Iterator, nothing: Any) -> Iterator:
    """The results; where they end in a ValueError, a warning, and `nothing` as the last result."""
    try:
        yield from results
    except ValueError as error:
        warn(error)
        yield nothing


def warn(error: ValueError) -> None:
    """What cannot be done is said in a sentence, and the page stays as it is."""
    gr.Warning(html.escape(str(error)))
