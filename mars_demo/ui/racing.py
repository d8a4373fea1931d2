"""A fair race on one machine.

Each run's clock counts its own forwards only; the run whose clock is behind takes the next step.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import gradio as gr

from mars_demo.core.layout import causal
from mars_demo.core.limits import LIMITS, refuse_long
from mars_demo.core.modes import BASELINE, RACED
from mars_demo.core.scheduler import SCHEDULER
from mars_demo.core.trace import Run
from mars_demo.decoding import decode as decoding
from mars_demo.decoding.reading import Forward, Reader, compute
from mars_demo.decoding.request import Request
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.memory import require_caches
from mars_demo.models.runtime.engine import Engine
from mars_demo.ui.generation import Generation, of_controls
from mars_demo.ui.hosting.gpu import on_gpu, seconds
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.hosting.shared_state import SharedState
from mars_demo.ui.knobs import Knobs

EVERY, LONGEST_PAUSE = 0.05, 0.5  # seconds between two updates of a page: least, most
CROWD = 4  # concurrent streams without fewer updates
WARM = 2  # forwards after a pause: after one, those of the chat model were still slower by a third

_growing: set[object] = set()


def compete(prompt, model, modes, *settings):
    """Race; yield the growing value of the stage.

    settings: the values of the page's controls, as `of_controls` takes them, and the knobs.

    Raises:
        ValueError: if the settings are invalid or the runs are not possible.
    """
    *values, knobs = settings
    runs = _raced(prompt, model, modes, of_controls(values), knobs)
    yield from within_limits(runs, knobs)


def _duration(prompt, model, modes, generation: Generation, knobs: Knobs) -> int:
    return seconds((1 + len(modes)) * generation.max_new_tokens, knobs.period)


@on_gpu(_duration)
def _raced(prompt, model, modes, generation: Generation, knobs: Knobs):
    checkpoint = MODELS.load(model)
    modes = lanes(checkpoint.modes, modes)

    def run(mode: str) -> Run:
        request = generation.narrowed(mode, lambda: knobs.tau, checkpoint.block_size)
        return decode_for_visitor(checkpoint, prompt, request, len(modes))

    runs = {mode: run(mode) for mode in modes}
    yield from streamed(runs, knobs, paced(checkpoint, knobs))


def decode_for_visitor(checkpoint: Checkpoint, prompt: str, request: Request, of: int = 1) -> Run:
    """Return a run that has not begun; its windows adapt to the costs of forwards, unless one is given.

    of: the number of runs that race each other on this prompt.

    Raises:
        ValueError: as in `decoding.decode`, if the prompt is longer than `LIMITS.prompt`, or if the KV
            caches of the race do not fit into the free memory.
    """
    refuse_long(prompt or "")
    run = decoding.decode(checkpoint, prompt, replace(request, adaptive=True))
    require_caches(checkpoint, run.settings.prompt_tokens + run.settings.max_new_tokens, of)
    return run


def lanes(has: Sequence[str], chosen: Sequence[str]) -> list[str]:
    """Return the modes that race: the baseline and the chosen ones that the model has, or its default."""
    modes = [BASELINE, *(mode.name for mode in RACED if mode.name in chosen)]
    return [mode for mode in modes if mode in has] or [has[0]]


def record(
    runs: Mapping[str | None, Run],
    stopped: Callable[[], bool],
    pause: Callable[[float], None] = lambda ms: None,
) -> Iterator[str]:
    """Race; yield the JSON lines, each with its lane unless that is None. Clocks exclude the pauses.

    The race ends early once `stopped()`, or when a run raises, whose exception is passed on. All runs are
    closed in any case.

    pause: called with the milliseconds of each forward, after it.
    """
    failure = None
    try:
        for lane, run in runs.items():
            yield f"{run.first_line(lane)}\n"
        try:
            for lane, step in decoding.race(runs):
                if step:
                    yield f"{step.line(lane)}\n"
                    if step.stop:
                        yield f"{runs[lane].last_line(lane)}\n"
                    pause(step.ms)
                if stopped():
                    break
        except Exception as error:  # noqa: BLE001  raised again below, after the record's last lines
            failure = error
        for lane, run in runs.items():
            if not run.stop:
                run.close()
                yield f"{run.last_line(lane)}\n"
        if failure:
            raise failure
    finally:
        for run in runs.values():
            run.close()


def streamed(
    runs: Mapping[str | None, Run], knobs: Knobs, pause: Callable[[float], None] = lambda ms: None
) -> Iterator[str]:
    """Race; yield the growing record, with a pause after each forward, until the knobs are stopped."""
    with closing(record(runs, lambda: knobs.stopped, pause)) as lines:
        yield from growing(lines)


def paced(checkpoint: Checkpoint, knobs: Knobs) -> Callable[[float], None]:
    """Return the pause after the forwards of a race that its visitor may watch.

    It ends with forwards that no clock counts, because they are read before it returns. After a sleep, a
    CPU's caches and threads are cold, which would slow AR down more than MARS.
    """
    engine, forward = Engine(checkpoint.decoder), Forward(causal([0]))

    def pause(ms: float) -> None:
        if not knobs.pause(ms) or knobs.stopped:
            return
        with SCHEDULER.turn():
            for _ in range(WARM):
                compute(engine, forward, Reader())
                engine.commit(0)

    return pause


def within_limits(results: Iterator, shared: SharedState) -> Iterator[Any]:
    """Yield the results of a visitor's run; stop it with a message after `LIMITS.race_seconds`."""
    longest = LIMITS.race_seconds
    shared.until = time.monotonic() + longest
    try:
        yield from results
        if shared.is_over:
            gr.Info(f"Stopped after {longest} seconds, the time limit here.")
    finally:
        shared.until = math.inf


def growing(lines: Iterable[str], every: float = EVERY) -> Iterator[str]:
    """Yield the lines so far, at most once per `every` seconds, and once at the end or before a failure.

    With many concurrent streams, each is updated less often: an update costs more than a tiny forward.
    """
    text, shown, pause, ticket = "", time.monotonic(), every, object()
    _growing.add(ticket)
    try:
        for line in lines:
            text += line
            if time.monotonic() - shown >= pause:
                yield text
                crowd = max(1, len(_growing) / CROWD)
                shown, pause = time.monotonic(), min(LONGEST_PAUSE, every * crowd)
    except Exception:
        yield text
        raise
    finally:
        _growing.remove(ticket)
    yield text
