"""Requests that come and go: an asynchronous scheduler over the cursor cache, and τ as a knob for load.

A request waits until a row of the batch is free, shares its forwards with whoever is there, streams its
passes out and leaves. How many tokens a forward accepts, and so how fast rows become free, is up to τ: one
number for all, a request's own, or what a `Controller` makes of the queue.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field

from mars_demo.batching import Batch, Row, columns
from mars_demo.checkpoints import Checkpoint
from mars_demo.decoding import prepare
from mars_demo.trace import Pass, Run


@dataclass(frozen=True)
class Controller:
    """τ by the queue: `high` while nobody waits, `low` when `full` requests or more do.

    Raises:
        ValueError: if the bounds are no thresholds, or in the wrong order.
    """

    low: float = 0.8
    high: float = 1.0
    full: int = 8

    def __post_init__(self):
        if not 0 <= self.low <= self.high <= 1:
            raise ValueError(f"The bounds of τ must be 0 ≤ low ≤ high ≤ 1, not {self.low} and {self.high}.")
        if self.full < 1:
            raise ValueError(f"The queue that asks for the lowest τ must be at least 1, not {self.full}.")

    def tau(self, waiting: int) -> float:
        return self.high - (self.high - self.low) * min(1.0, waiting / self.full)


@dataclass
class Request:
    """A prompt on its way through a `Server`. Iterate to get its passes as they are made.

    arrived, first and finished are seconds of the server's clock: when it came, when its first token was
    there, and its last.
    """

    run: Run
    arrived: float
    row: Row
    first: float | None = None
    finished: float | None = None
    cancelled: bool = False
    _passes: asyncio.Queue[Pass | Exception | None] = field(default_factory=asyncio.Queue)

    async def __aiter__(self) -> AsyncIterator[Pass]:
        while (step := await self._passes.get()) is not None:
            if isinstance(step, Exception):
                raise step
            yield step

    async def finish(self) -> Request:
        async for _ in self:
            pass
        return self

    def cancel(self) -> None:
        """Leave the queue or the batch before the next forward."""
        self.cancelled = True


@dataclass(frozen=True)
class Moment:
    """A forward of the server: when it ended, how many waited and computed when it began, and τ."""

    seconds: float
    waiting: int
    active: int
    tau: float


class Server:
    """Up to `size` requests at a time on one model; use it as `async with Server(…) as server`.

    tau: for all requests that bring none of their own; a number or a `Controller`. May be set at any time.
    settings: of `decoding.prepare`, for all requests.

    Raises:
        ValueError: if the size is below 1 or the cache does not fit into memory.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        size: int = 8,
        tau: float | Controller = 0.95,
        **settings,
    ):
        if size < 1:
            raise ValueError(f"The batch size must be at least 1, not {size}.")
        self.checkpoint, self.tau, self.settings = checkpoint, tau, settings
        window = settings.get("window") or checkpoint.largest_window
        self._batch = Batch(checkpoint, size, columns(checkpoint, checkpoint.context, window))
        self._waiting: deque[Request] = deque()
        self._active: dict[int, Request] = {}
        self._wake = asyncio.Event()
        self._left = False
        self._started = time.perf_counter()
        self.moments: list[Moment] = []

    async def __aenter__(self) -> Server:
        self._loop = asyncio.create_task(self._serve())
        return self

    async def __aexit__(self, *_) -> None:
        self._left = True
        self._wake.set()
        await self._loop  # to the end of the forward that is being computed: its thread cannot be cancelled
        for request in (*self._active.values(), *self._waiting):
            request.cancel()
        self._leave()

    @property
    def clock(self) -> float:
        return time.perf_counter() - self._started

    @property
    def tau_now(self) -> float:
        """What requests without a τ of their own decode with."""
        return self.tau.tau(len(self._waiting)) if isinstance(self.tau, Controller) else self.tau

    def submit(self, prompt: str, tau: float | None = None, **settings) -> Request:
        """Queue a prompt. `tau` is for this request alone.

        Raises:
            ValueError: as `decoding.prepare`; other requests do not notice.
        """
        chosen = (lambda: self.tau_now) if tau is None else tau
        described, strategy = prepare(self.checkpoint, prompt, tau=chosen, **(self.settings | settings))
        sampling = (self.settings | settings).get("sampling")
        run = Run(described)
        request = Request(run, self.clock, Row(run, strategy, sampling=sampling))
        self._waiting.append(request)
        self._wake.set()
        return request

    async def _serve(self) -> None:
        while not self._left:
            self._leave()
            while self._waiting and self._batch.room:
                request = self._waiting.popleft()
                self._active[id(request.row)] = request
                self._batch.admit(request.row)
            if not self._active:
                self._wake.clear()
                await self._wake.wait()
                continue
            waiting, active, tau = len(self._waiting), len(self._active), self.tau_now
            try:
                # Beside the event loop, so that requests arrive and stream out while a forward computes.
                moved = await asyncio.to_thread(self._batch.step)
            except Exception as error:  # whatever it was, those who wait behind these rows get their turn
                self._fail(error)
                continue
            self.moments.append(Moment(self.clock, waiting, active, tau))
            for row, step in moved:
                self._stream(self._active[id(row)], step)

    def _stream(self, request: Request, step: Pass) -> None:
        request.first = request.first or self.clock
        request._passes.put_nowait(step)
        if step.stop:
            self._end(request, None)

    def _end(self, request: Request, last: Exception | None) -> None:
        request.finished = self.clock
        self._active.pop(id(request.row), None)
        if last:
            request._passes.put_nowait(last)
        request._passes.put_nowait(None)

    def _leave(self) -> None:
        for request in [r for r in (*self._active.values(), *self._waiting) if r.cancelled]:
            if id(request.row) in self._active:
                self._batch.drop(request.row)
            else:
                self._waiting.remove(request)
            request.run.close()
            self._end(request, None)

    def _fail(self, error: Exception) -> None:
        for request in list(self._active.values()):
            if request.row in self._batch.rows:
                self._batch.drop(request.row)
            self._end(request, error)


async def replay(server: Server, arrivals: Iterable[tuple[float, str]]) -> list[Request]:
    """Submit each prompt at its second, in real time, and wait until all are answered."""
    begun, requests = server.clock, []
    for at, prompt in arrivals:
        await asyncio.sleep(max(0.0, begun + at - server.clock))
        requests.append(server.submit(prompt))
    await asyncio.gather(*(request.finish() for request in requests))
    return requests


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]
