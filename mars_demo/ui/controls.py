"""Controls, and settings of events, that several tabs share."""

import html
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gradio as gr
from gradio.context import LocalContext

from mars_demo.limits import LIMITS
from mars_demo.ui.board import Board, Number
from mars_demo.ui.gpu import LENT
from mars_demo.ui.guard import sentence
from mars_demo.ui.visitors import at_leaving

TAU = 0.95

# Settings of events: answered at once, outside of the queue; following a slider; only a script in the
# browser; long work, which waits in `line.LINE` and not in Gradio's queue.
QUIET = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
LIVE = {**QUIET, "trigger_mode": "always_last"}
IN_BROWSER = {"show_progress": "hidden", "api_visibility": "private"}
IN_LINE = {"concurrency_id": "line", "concurrency_limit": None, **IN_BROWSER}
NAP = 0.1  # seconds


def at_once() -> int:
    """How many races go on at once, in turns: a GPU that is lent serves one at a time."""
    return 1 if LENT else LIMITS.races


def in_turns() -> dict[str, Any]:
    """Settings of events that race: more visitors wait in one queue."""
    return {"concurrency_id": "model", "concurrency_limit": at_once(), "api_visibility": "private"}


class Knobs(Board):
    """What a visitor may change while models run."""

    tau = Number(TAU)
    wait = Number(0)  # ms of slow motion after each forward

    def pause(self) -> None:
        """Slow motion, while others have their turns. In naps: a changed wait or a stop counts soon."""
        started = time.monotonic()
        while not self.stopped and (left := self.wait / 1000 - (time.monotonic() - started)) > 0:
            time.sleep(min(left, NAP))


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


def begin(knobs: Knobs, request: gr.Request, tau: float = TAU, wait: float = 0):
    """Before a run: the knobs as the page shows them; Run off, Stop on. The run stops when its visitor
    leaves."""
    knobs.tau, knobs.wait, knobs.stopped = tau, wait, False
    at_leaving(request, stop, knobs)
    return gr.Button(interactive=False), gr.Button(interactive=True)


def refuse_crowd() -> None:
    """
    Raises:
        gr.Error: if too many visitors wait. Gradio would say so too, but leave their buttons as they are.
    """
    app = LocalContext.blocks.get(None)
    if app and len(app._queue) >= LIMITS.waiting:
        told = f"{LIMITS.waiting} visitors wait already, which is the limit here. Try again in a minute."
        raise gr.Error(told, print_exception=False)


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
    **more: Any,
) -> None:
    """Let events start `work`, which gets `inputs` and the knobs, and the second button stop it.

    settings: the components with the knobs' τ and wait. before: what is waited for first, by each visitor
    alone, with its inputs. more: settings of the event that works: its queue and how it shows progress.
    """
    for start in starts:
        begun = start(begin, [knobs, *settings], buttons, **QUIET)
        if before:
            begun = begun.then(*before, None, concurrency_limit=None, **IN_BROWSER)
            begun.failure(end, None, buttons, **QUIET)
        begun.success(work, [*inputs, knobs], outputs, **more).then(end, None, buttons, **QUIET)
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
    gr.Warning(html.escape(sentence(error)))
