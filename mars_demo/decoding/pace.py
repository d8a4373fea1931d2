"""The pace of an answer: the slots of each forward, from the costs of forwards and past acceptance."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import linear_regression

from mars_demo.core import layout as layouts
from mars_demo.decoding.reading import Forward, Reader, compute
from mars_demo.decoding.request import Request
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.runtime.decoder import Decoder
from mars_demo.models.runtime.engine import Engine

CONTEXT = 64  # cached positions before a measured forward
ROUNDS = 6  # measured forwards of each size when a model is loaded
MASKS = 8  # the masks of a measured block, for models that were trained without masks
STEPS = 50  # slopes are rounded to multiples of 1 / STEPS
MEMORY = 0.95  # decay of past acceptance per forward; so a narrow window is widened again now and then
PRIOR = {"mars": (1, 2), "lossless": (4, 5)}  # accepted and decided slots before an answer begins

Costs = Sequence[tuple[int, float]]  # [positions, milliseconds] of measured forwards


# ------------------------------------------------------------------------------------- costs of forwards


def measured(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint with the costs of its forwards: of 1, half of, and all positions of a block.

    Only a CPU is measured: on a GPU, positions hardly cost time.
    """
    if checkpoint.device.type != "cpu":
        return checkpoint
    masks = max(2, checkpoint.block_size or MASKS)
    cached = max(1, min(CONTEXT, checkpoint.context - masks - 1))
    sizes = (1, 1 + masks // 2, 1 + masks)
    return replace(checkpoint, costs=costs_of(checkpoint.decoder, sizes, cached, ROUNDS))


def costs_of(decoder: Decoder, sizes: Sequence[int], cached: int, rounds: int) -> Costs:
    """Return the costs of forwards with these numbers of positions after so many cached ones.

    Each is the shortest of its rounds, because other work makes some forwards much longer.
    """
    engine = Engine(decoder)
    _milliseconds(engine, max(1, cached), keep=cached)  # a process's first forward is slower
    times = [[_milliseconds(engine, size) for size in sizes] for _ in range(rounds)]
    return [*zip(sizes, map(min, zip(*times)))]


def _milliseconds(engine: Engine, positions: int, keep: int = 0) -> float:
    """Return the time to compute, read and commit a forward, as in a run: of a prompt, its last position.

    It takes no turn: a loading model holds locks that the thread with the turn may wait for.
    """
    started = time.perf_counter()
    layout = layouts.window([0], positions - 1, 0, engine.length)
    compute(engine, Forward(layout, 0 if engine.length else positions - 1), Reader())
    engine.commit(keep)
    return 1000 * (time.perf_counter() - started)


def cost_of(costs: Costs) -> Callable[[float], float]:
    """Return the cost of k positions relative to 1: the line through the measured costs.

    Its slope is rounded to a multiple of 1 / `STEPS`, so that noise seldom changes an answer.
    """
    slope = round(STEPS * max(0.0, linear_regression(*zip(*costs)).slope / costs[0][1])) / STEPS
    return lambda k: 1 + slope * (k - 1)


# -------------------------------------------------------------------------------- expected tokens per time
# Each function returns the tokens in the time of a forward with 1 position, for forwards that all have the
# same number of slots, if a slot is accepted with probability `rate` after accepted ones.


def _tokens(slots: int, rate: float) -> float:
    return sum(rate**place for place in range(slots))


def window_gain(slots: int, rate: float, cost: Callable[[float], float]) -> float:
    """Return the speed of `mars`, which computes its masks and the previously accepted tokens."""
    tokens = _tokens(slots, rate)
    return tokens / cost(slots - 1 + tokens)


def grouped(slots: int, rate: float, cost: Callable[[float], float]) -> float:
    """Return the speed of `lossless` with a group of masks after each draft."""
    return _tokens(slots, rate) / cost(slots**2)


def linear(slots: int, rate: float, cost: Callable[[float], float]) -> float:
    """Return the speed of `lossless` in the linear layout.

    A rejected draft leaves no drafts for the next forward, which accepts one token.
    """
    rejected = 1 - rate ** (slots - 1)
    return (_tokens(slots, rate) + rejected) / (cost(2 * slots - 1) + rejected * cost(slots))


# ---------------------------------------------------------------------------------------------- an answer


class Pace:
    """The number of masks of the forwards of one answer in `mars` or `lossless`.

    If the request is adaptive, it is that of the window with the highest expected speed, given the answer's
    acceptance so far; otherwise always that of the largest window.
    """

    def __init__(self, checkpoint: Checkpoint, request: Request):
        self._cost = cost_of(checkpoint.costs) if request.adaptive else None
        self._largest = request.window
        verified = linear if request.linear else grouped
        self._speed = verified if request.mode == "lossless" else window_gain
        self._prior = PRIOR.get(request.mode)
        self._accepted = self._decided = 0.0

    @property
    def masks(self) -> int:
        if not self._cost:
            return self._largest - 1
        accepted, decided = self._prior
        rate = (self._accepted + accepted) / (self._decided + decided)
        windows = range(1, self._largest + 1)
        return max(windows, key=lambda slots: self._speed(slots, rate, self._cost)) - 1

    def saw(self, accepted: int, sent: int) -> None:
        """Learn from a forward how many of the masks or drafts that it sent were accepted."""
        self._accepted = MEMORY * self._accepted + accepted
        self._decided = MEMORY * self._decided + min(accepted + 1, sent)
