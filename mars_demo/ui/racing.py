"""A fair race on one machine: several runs that share the processor, each on its own clock.

A clock counts its own forwards only, and the run whose clock is behind takes the next step: the race as it
would be on equal machines.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from mars_demo.decoding.trace import Pass, Run


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
    runs: Mapping[str, Run], stopped: Callable[[], bool], pause: Callable[[], None] = lambda: None
) -> Iterator[str]:
    """The JSON lines of a race, each with its lane; no clock counts the pauses between forwards.

    Ends early once `stopped()`; always frees the runs.
    """

    def line(lane: str, text: str) -> str:
        return f'{{"lane": "{lane}", {text[1:]}\n'

    try:
        for lane, run in runs.items():
            yield line(lane, run.first_line())
        for lane, step in race(runs):
            yield line(lane, step.line())
            if step.stop:
                yield line(lane, runs[lane].last_line())
            pause()
            if stopped():
                break
        for lane, run in runs.items():
            if not run.stop:
                run.close()
                yield line(lane, run.last_line())
    finally:
        for run in runs.values():
            run.close()


def growing(lines: Iterable[str], every: float = 0.05) -> Iterator[str]:
    """The lines so far, at most once per `every` seconds and always once at the end.

    A tiny model makes a forward in a few milliseconds; showing each one would cost more than making it.
    """
    text, shown = "", time.monotonic()
    for line in lines:
        text += line
        if time.monotonic() - shown >= every:
            yield text
            shown = time.monotonic()
    yield text
