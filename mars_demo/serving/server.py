"""An asynchronous server: continuous batching over the per-sequence KV cache."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Self

from mars_demo.core.messages import Message
from mars_demo.core.modes import MODES
from mars_demo.core.trace import Pass
from mars_demo.decoding.request import Request
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.serving.batch import Batch, columns
from mars_demo.serving.batch_sequence import BatchSequence, fitted


class Job(BatchSequence):
    """A sequence of a `Server`; iterating yields its passes as they are decoded.

    arrived, first, finished: the times of its submission, its first pass and its end, by
        `time.perf_counter`; None before.
    """

    def __init__(self, *settings: Any):
        super().__init__(*settings)
        self.arrived = time.perf_counter()
        self.first: float | None = None
        self.finished: float | None = None
        self.cancelled = False
        self._passes: asyncio.Queue[Pass | Exception | None] = asyncio.Queue()

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

    def advance(self, step: Pass) -> None:
        self.first = self.first or time.perf_counter()
        self._passes.put_nowait(step)

    def end(self, error: Exception | None = None) -> None:
        self.finished = time.perf_counter()
        self._passes.put_nowait(error)


class Server:
    """A server for up to `size` sequences on one model.

    ended: called with each job that was answered, was cancelled or has failed.

    Raises:
        ValueError: if the size is below 1, or the cache does not fit into memory.
    """

    def __init__(
        self, checkpoint: Checkpoint, size: int = 8, ended: Callable[[Job], None] = lambda job: None
    ):
        self.checkpoint = checkpoint = checkpoint.dense
        self.size, self._ended = size, ended
        # Every mode that a request may name has its default window.
        modes = [mode for mode in checkpoint.modes if not MODES[mode].needs_draft]
        self.largest_window = max(fitted(checkpoint, Request(mode), size).window for mode in modes)
        self._batch = Batch(checkpoint, size, columns(checkpoint, checkpoint.context, self.largest_window))
        self.jobs: set[Job] = set()  # in the batch and in its queue
        self._loop: asyncio.Task | None = None  # computes while there are jobs

    async def aclose(self) -> None:
        """Cancel all jobs; return once the current forward has ended, as its thread cannot be cancelled."""
        for job in self.jobs:
            job.cancel()
        if self._loop:
            await self._loop

    @property
    def waiting(self) -> int:
        return len(self._batch.waiting)

    @property
    def active(self) -> int:
        return len(self._batch.active)

    def submit(self, prompt: str | Sequence[Message], request: Request) -> Job:
        """Queue a prompt, or a conversation whose last message is the prompt.

        Raises:
            ValueError: as `decode.decode`, or if the window is too large for the server's cache; other jobs
                are not affected.
        """
        request = fitted(self.checkpoint, request, self.size)
        if request.window > self.largest_window:
            raise ValueError(
                f"A window of {request.window} slots is larger than this server's {self.largest_window}."
            )
        job = Job(self.checkpoint, prompt, request)
        self.jobs.add(job)
        self._batch.waiting.append(job)
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._serve())
        return job

    async def _serve(self) -> None:
        while self._not_cancelled():
            # In a thread, so that jobs arrive and stream while a forward computes.
            for job, step in await asyncio.to_thread(self._batch.step):
                if isinstance(step, Exception):
                    self._end(job, step)
                    continue
                job.advance(step)
                if step.stop:
                    self._end(job)

    def _not_cancelled(self) -> set[Job]:
        """Return the jobs after removing cancelled ones."""
        for job in [job for job in self.jobs if job.cancelled]:
            self._batch.drop(job)
            job.run.close()
            self._end(job)
        return self.jobs

    def _end(self, job: Job, error: Exception | None = None) -> None:
        self.jobs.remove(job)
        job.end(error)
        self._ended(job)
