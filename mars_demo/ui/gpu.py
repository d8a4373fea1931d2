"""GPUs that are lent for a call: on ZeroGPU a decorated function runs in a forked process that has one.

Everywhere else the function runs here, as the scheduler lets it. On ZeroGPU the process is forked when it
is first needed and serves later calls too, so it knows nothing of what has happened in the app since then.
The app itself never computes there; arguments and results are pickled.
"""

import functools
import inspect
import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import gradio as gr

from mars_demo.scheduler import RACE, SCHEDULER
from mars_demo.ui import owned
from mars_demo.ui.board import Board

try:
    import spaces  # before torch, which it has to change
except ImportError:  # anywhere but on a Space
    spaces = None

LONGEST = 110  # seconds that are asked for, at most: visitors without an account have two minutes a day
START = 10  # seconds until the weights are on the GPU
FORWARD = 0.04  # seconds, of a model with a few billion parameters


def _is_lent() -> bool:
    def probe() -> None:
        """Only on ZeroGPU does the decorator change anything."""

    return spaces is not None and spaces.GPU(probe) is not probe


LENT = _is_lent()


def seconds(forwards: float, pause: float = 0) -> int:
    """How long so many forwards may take, with a pause of so many milliseconds after each."""
    return min(LONGEST, 1 + round(forwards * (FORWARD + pause / 1000)))


def on_gpu(duration: Callable[..., int], kind: str = RACE) -> Callable:
    """Let a function or a generator function compute where the GPU is.

    kind: the class of its work for the scheduler. A lent GPU has nobody else meanwhile.

    Boards among its arguments count as stopped after `duration(*arguments)` seconds on a lent GPU, and when
    the generator is closed. What it raises as a ValueError is raised here too.
    """

    def decorate(work: Callable) -> Callable:
        if not LENT:
            return SCHEDULER.scheduled(work, kind)
        lent = spaces.GPU(_worker(work), duration=lambda granted, *_: granted + START)

        @functools.wraps(work)
        def steps(*arguments: Any) -> Iterator:
            yield from _results(lent, duration(*arguments), arguments)

        @functools.wraps(work)
        def call(*arguments: Any) -> Any:
            [result] = _results(lent, duration(*arguments), arguments)
            return result

        return steps if inspect.isgeneratorfunction(work) else call

    return decorate


def _results(lent: Callable, granted: int, arguments: tuple) -> Iterator:
    """The results of a call of the other process."""
    boards = [argument for argument in arguments if isinstance(argument, Board)]
    with closing(lent(granted, owned.known(), *arguments)) as results:
        try:
            for problem, result in results:
                if problem:
                    raise ValueError(problem)
                yield result
        except GeneratorExit:  # the visitor has left; the other process may be in the middle of a pause
            for board in boards:
                board.stopped = True
            raise
        if any(board.is_over for board in boards):
            gr.Info(f"Stopped after {granted} seconds, the GPU time limit.")
        for board in boards:
            board.until = math.inf


def _worker(work: Callable) -> Callable[..., Iterator[tuple[str | None, Any]]]:
    """What runs in the other process: pairs of a problem, if there is one, and a result."""

    @functools.wraps(work)
    def run(granted: int, known: owned.Known, *arguments: Any) -> Iterator[tuple[str | None, Any]]:
        try:
            owned.learn(known)
            for board in arguments:
                if isinstance(board, Board):
                    board.until = min(board.until, time.monotonic() + granted)
            if not inspect.isgeneratorfunction(work):
                yield None, work(*arguments)
                return
            with closing(work(*arguments)) as results:
                for result in results:
                    yield None, result
        except ValueError as error:
            yield str(error), None

    return run
