"""A fair race on one machine.

Each run's clock counts its own forwards only; the run whose clock is behind takes the next step.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

import gradio as gr

from mars_demo.decoding.trace import Pass, Run
from mars_demo.limits import LIMITS
from mars_demo.ui.controls import Knobs
from mars_demo.ui.hosting.shared_state import SharedState

EVERY, LONGEST_PAUSE = 0.05, 0.5  # seconds between two updates of a page: least, most
CROWD = 4  # concurrent streams without fewer updates

_growing: set[object] = set()


def race(runs: Mapping[str, Run]) -> Iterator[tuple[str, Pass]]:
    """Step the run whose clock is behind, until all have ended."""
    racing = dict(runs)
    while racing:
        lane = min(racing, key=lambda name: racing[name].seconds)
        step = next(racing[lane], None)
        if step is not None:
            yield lane, step
        if racing[lane].stop:
            del racing[lane]


def record(
    runs: Mapping[str | None, Run], stopped: Callable[[], bool], pause: Callable[[], None] = lambda: None
) -> Iterator[str]:
    """Race; yield the JSON lines, each with its lane unless that is None. Clocks exclude the pauses.

    The race ends early once `stopped()`, or when a run raises, whose exception is passed on. All runs are
    closed in any case.
    """
    failure = None
    try:
        for lane, run in runs.items():
            yield f"{run.first_line(lane)}\n"
        try:
            for lane, step in race(runs):
                yield f"{step.line(lane)}\n"
                if step.stop:
                    yield f"{runs[lane].last_line(lane)}\n"
                pause()
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


def streamed(runs: Mapping[str | None, Run], knobs: Knobs) -> Iterator[str]:
    """Race; yield the growing record, with the pauses of the knobs, until they are stopped."""
    with closing(record(runs, lambda: knobs.stopped, knobs.pause)) as lines:
        yield from growing(lines)


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
