"""An asynchronous server: continuous batching over the per-sequence KV cache.

A job waits for a free batch slot, shares its forwards with the other sequences, streams its passes and
leaves. τ decides how many tokens a forward accepts and so how fast slots become free. It is one number for
all, a request's own, or set by a `Controller` from the queue.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from mars_demo.core.acceptance import by_load
from mars_demo.core.messages import Message
from mars_demo.core.modes import MODES
from mars_demo.core.trace import Pass, Run
from mars_demo.decoding.request import Request
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.serving.batch import Batch, columns
from mars_demo.serving.batch_sequence import BatchSequence, fitted


@dataclass(frozen=True)
class Controller:
    """A controller of τ by load: `high` without load, `low` at a load of 1 or more.

    The load of a `Server` is the length of its queue, in batches.

    Raises:
        ValueError: if the bounds are not thresholds in ascending order.
    """

    low: float = 0.8
    high: float = 1.0

    def __post_init__(self):
        if not 0 <= self.low <= self.high <= 1:
            raise ValueError(f"The bounds of τ must be 0 ≤ low ≤ high ≤ 1, not {self.low} and {self.high}.")

    def tau(self, load: float) -> float:
        return by_load(self.low, self.high, load)


@dataclass
class Job:
    """A prompt in a `Server`; iterating yields its passes as they are decoded."""

    run: Run
    arrived: float  # seconds on the server's clock, as are `first` and `finished`: its first and last token
    sequence: BatchSequence
    first: float | None = None
    finished: float | None = None
    started: float | None = None  # when it got a batch slot
    cancelled: bool = False
    _passes: asyncio.Queue[Pass | Exception | None] = field(default_factory=asyncio.Queue)

    async def __aiter__(self) -> AsyncIterator[Pass]:
        while (step := await self._passes.get()) is not None:
            if isinstance(step, Exception):
                raise step
            yield step

    async def finish(self) -> Self:
        async for _ in self:
            pass
        return self

    def cancel(self) -> None:
        """Remove the job from the queue or the batch before the next forward."""
        self.cancelled = True


class Server:
    """A server for up to `size` sequences on one model; use it as `async with Server(…) as server`.

    tau: a number or a `Controller`, for prompts without a request of their own; can be set at any time.
    request: the request of prompts that bring none; its τ is not used.
    ended: called with each job that was answered, was cancelled or has failed.

    Raises:
        ValueError: if the size is below 1, τ is not a threshold, or the cache does not fit into memory.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        size: int = 8,
        tau: float | Controller = Request.tau,
        request: Request = Request(),  # noqa: B008
        ended: Callable[[Job], None] = lambda job: None,
    ):
        if size < 1:
            raise ValueError(f"The batch size must be at least 1, not {size}.")
        self.tau, self._ended = tau, ended
        checkpoint = checkpoint.dense
        self.checkpoint, self.size, self.request = checkpoint, size, request
        # Every mode that a request may name has its default window.
        alone = [Request(mode) for mode in checkpoint.modes if not MODES[mode].needs_draft]
        windows = [fitted(checkpoint, one, size).window for one in (request, *alone)]
        self.largest_window = max(*windows, checkpoint.largest_window)
        room = columns(checkpoint, checkpoint.context, self.largest_window)
        self._batch = Batch(checkpoint, size, room)
        self._waiting: deque[Job] = deque()
        self._active: dict[int, Job] = {}
        self._wake = asyncio.Event()
        self._left = False
        self._started = time.perf_counter()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.create_task(self._serve())
        return self

    async def __aexit__(self, *_) -> None:
        self._left = True
        self._wake.set()
        await self._loop  # until the current forward ends: its thread cannot be cancelled
        for job in (*self._active.values(), *self._waiting):
            job.cancel()
        self._leave()

    @property
    def clock(self) -> float:
        return time.perf_counter() - self._started

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def active(self) -> int:
        return len(self._active)

    @property
    def tau(self) -> float | Controller:
        """The τ of prompts without a request of their own.

        Raises:
            ValueError: on setting anything but a number from 0 to 1 or a `Controller`.
        """
        return self._tau

    @tau.setter
    def tau(self, tau: float | Controller) -> None:
        if not isinstance(tau, Controller):
            number = isinstance(tau, int | float) and not isinstance(tau, bool)
            if not (number and 0 <= tau <= 1):
                raise ValueError(f"τ must be a number between 0 and 1 or a Controller, not {tau!r}.")
        self._tau = tau

    @property
    def tau_now(self) -> float:
        """The current threshold of jobs without a request of their own."""
        return self.tau.tau(self.waiting / self.size) if isinstance(self.tau, Controller) else self.tau

    def submit(self, prompt: str | Sequence[Message], request: Request | None = None) -> Job:
        """Queue a prompt, or a conversation whose last message is the prompt.

        A `request` replaces the server's, including τ.

        Raises:
            ValueError: as `decode.decode`, or if the window is too large for the server's cache; other jobs
                are not affected.
        """
        request = request or replace(self.request, tau=lambda: self.tau_now)
        request = fitted(self.checkpoint, request, self.size)
        if request.window > self.largest_window:
            raise ValueError(
                f"A window of {request.window} slots is larger than this server's {self.largest_window}."
            )
        sequence = BatchSequence.of(self.checkpoint, prompt, request)
        job = Job(sequence.run, self.clock, sequence)
        self._waiting.append(job)
        self._wake.set()
        return job

    async def _serve(self) -> None:
        while not self._left:
            self._leave()
            while self._waiting and self._batch.room:
                job = self._waiting.popleft()
                job.started = self.clock
                self._active[id(job.sequence)] = job
                self._batch.admit(job.sequence)
            if not self._active:
                self._wake.clear()
                await self._wake.wait()
                continue
            try:
                # In a thread, so that jobs arrive and stream while a forward computes.
                moved = await asyncio.to_thread(self._batch.step)
            except Exception as error:  # active jobs fail, waiting ones go on
                self._fail(error)
                continue
            for sequence, step in moved:
                job = self._active[id(sequence)]
                self._end(job, step) if isinstance(step, Exception) else self._stream(job, step)

    def _stream(self, job: Job, step: Pass) -> None:
        job.first = job.first or self.clock
        job._passes.put_nowait(step)
        if step.stop:
            self._end(job, None)

    def _end(self, job: Job, last: Exception | None) -> None:
        job.finished = self.clock
        self._active.pop(id(job.sequence), None)
        self._ended(job)
        if last:
            job._passes.put_nowait(last)
        job._passes.put_nowait(None)

    def _leave(self) -> None:
        for job in [r for r in (*self._active.values(), *self._waiting) if r.cancelled]:
            if id(job.sequence) in self._active:
                self._batch.drop(job.sequence)
            else:
                self._waiting.remove(job)
            job.run.close()
            self._end(job, None)

    def _fail(self, error: Exception) -> None:
        for job in list(self._active.values()):
            if job.sequence in self._batch.slots:
                self._batch.drop(job.sequence)
            self._end(job, error)
