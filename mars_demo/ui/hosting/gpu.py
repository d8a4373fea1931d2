"""GPUs lent for a single call: on ZeroGPU, a decorated function runs in a forked process with a GPU.

On other machines the function runs in this process, when the scheduler lets it. On ZeroGPU, the process is
forked for the first call and reused for later ones, so it does not have the app's later state. The app
itself never computes there. Arguments and results are pickled.
"""

import functools
import inspect
import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import gradio as gr

from mars_demo.core.scheduler import RACE, SCHEDULER
from mars_demo.ui.hosting.registry import MODELS, Caller
from mars_demo.ui.hosting.shared_state import SharedState

try:
    import spaces
except ImportError:  # not installed outside of Spaces
    spaces = None

LONGEST = 110  # seconds to request at most: visitors without an account have two minutes a day
START = 10  # seconds to move the weights to the GPU
FORWARD = 0.04  # seconds, of a model with a few billion parameters


def _is_lent() -> bool:
    def probe() -> None:
        """Stay the same function under `spaces.GPU`, except on ZeroGPU."""

    return spaces is not None and spaces.GPU(probe) is not probe


LENT = _is_lent()


def seconds(forwards: float, period: float = 0) -> int:
    """Return the time limit for some forwards, of which each takes at least `period` seconds."""
    return min(LONGEST, 1 + round(forwards * max(FORWARD, period)))


def on_gpu(duration: Callable[..., int], kind: str = RACE) -> Callable:
    """Run a function or a generator function in the process that has the GPU.

    kind: the class of its work for the scheduler; a lent GPU has no other work meanwhile.

    Any `SharedState` among its arguments counts as stopped after `duration(*arguments)` seconds on a lent
    GPU, and when the generator is closed. A ValueError in the other process is raised here again.
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
    """Yield the results of a call in the other process."""
    shared_states = [argument for argument in arguments if isinstance(argument, SharedState)]
    with closing(lent(granted, MODELS.caller(), *arguments)) as results:
        try:
            for problem, result in results:
                if problem:
                    raise ValueError(problem)
                yield result
        except GeneratorExit:  # the visitor has left; the other process may be in a pause
            for shared in shared_states:
                shared.stopped = True
            raise
        if any(shared.is_over for shared in shared_states):
            gr.Info(f"Stopped after {granted} seconds, the GPU time limit.")
        for shared in shared_states:
            shared.until = math.inf


def _worker(work: Callable) -> Callable[..., Iterator[tuple[str | None, Any]]]:
    """Return the function for the other process, which yields pairs of an error, if any, and a result."""

    @functools.wraps(work)
    def run(granted: int, caller: Caller, *arguments: Any) -> Iterator[tuple[str | None, Any]]:
        try:
            MODELS.act_for(caller)
            for shared in arguments:
                if isinstance(shared, SharedState):
                    shared.until = min(shared.until, time.monotonic() + granted)
            if not inspect.isgeneratorfunction(work):
                yield None, work(*arguments)
                return
            with closing(work(*arguments)) as results:
                for result in results:
                    yield None, result
        except ValueError as error:
            yield str(error), None

    return run
