"""A fair race on one machine: each run's clock counts its own forwards only, and the run whose clock is
behind takes the next step."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

import gradio as gr

from mars_demo.decoding.trace import Pass, Run
from mars_demo.limits import LIMITS
from mars_demo.ui.board import Board
from mars_demo.ui.controls import Knobs

EVERY, LONGEST_PAUSE = 0.05, 0.5  # seconds between two values that a page is shown
CROWD = 4  # things that grow at a time without being shown less often

_growing: set[object] = set()


def race(runs: Mapping[str, Run]) -> Iterator[tuple[str, Pass]]:
    """Step whichever run's own clock is behind, until all have ended."""
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
    """Race; give the JSON lines, each with its lane, if that is not None. No clock counts the pauses.

    Ends early once `stopped()`, and where a run fails, with what it raises; always closes the runs.
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
        except Exception as error:  # noqa: BLE001  whatever it is, the record is ended before it is raised
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
    """Race; give the growing record, with the pauses and until the stop of the knobs."""
    with closing(record(runs, lambda: knobs.stopped, knobs.pause)) as lines:
        yield from growing(lines)


def within_limits(results: Iterator, board: Board) -> Iterator[Any]:
    """Give the results of a visitor's run, which is stopped with a message after `LIMITS.race_seconds`."""
    longest = LIMITS.race_seconds
    board.until = time.monotonic() + longest
    try:
        yield from results
        if board.is_over:
            gr.Info(f"Stopped after {longest} seconds, which is the limit here.")
    finally:
        board.until = math.inf


def growing(lines: Iterable[str], every: float = EVERY) -> Iterator[str]:
    """Give the lines so far, at most once per `every` seconds and always once at the end, also where it
    fails. While many things grow, each is shown less often: an update costs more than a tiny forward."""
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
