"""The batch server: requests that join, stream and leave, and failures of one of them."""

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest
from greedy import check_same_passes
from web import run

from mars_demo import tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.serving.server import Job, Server

PROMPTS = [tasks.held_out(name, 1)[0].prompt for name in tasks.TASKS]
LIMIT = Request("mars", max_new_tokens=40)


def served(checkpoint, prompts, request) -> list[Job]:
    """Return the finished jobs of a server for three sequences."""

    async def serve():
        async with aclosing(Server(checkpoint, size=3)) as server:
            return await asyncio.gather(*[server.submit(prompt, request).finish() for prompt in prompts])

    return run(serve())


def test_every_prompt_gets_the_answer_it_gets_alone(mars_tiny):
    jobs = served(mars_tiny, PROMPTS, LIMIT)
    for job, prompt in zip(jobs, PROMPTS):
        check_same_passes(job.run, decode(mars_tiny, prompt, LIMIT).finish())
    assert all(job.arrived <= job.started < job.first <= job.finished for job in jobs)
    active = [sum(other.started <= job.started < other.finished for other in jobs) for job in jobs]
    assert max(active) == 3


@pytest.mark.parametrize("mode", ["lossless", "jacobi"])
def test_a_served_request_has_the_forwards_of_a_batch(mars_tiny, mode):
    """Take a model whose blocks are smaller than Jacobi's window and than an n-gram draft."""
    narrow, request = replace(mars_tiny, block_size=3), Request(mode, max_new_tokens=40)
    batch = decode_batch(narrow, PROMPTS[:6], request, size=3).finish()
    for job, alone in zip(served(narrow, PROMPTS[:6], request), batch.runs, strict=True):
        check_same_passes(job.run, alone)
        assert job.run.settings.window == alone.settings.window
        assert max(step.drafts for step in job.run.passes) == alone.settings.window - 1


def test_a_failing_request_does_not_affect_the_others(checkpoint):
    """Fail before a forward, by an invalid τ of one request, and after it, by the text of another."""
    taus = iter([0.9, 0.9, 7.0])

    class Breaks(list):
        def append(self, token):
            if len(self) == 2:
                raise RuntimeError("no text for it")
            super().append(token)

    async def serve():
        async with aclosing(Server(checkpoint, size=3)) as server:
            good = server.submit("hello", LIMIT)
            before = server.submit("hello", replace(LIMIT, tau=lambda: next(taus)))
            after = server.submit("hello", replace(LIMIT, tau=1.0))
            after.answer.ids = Breaks()
            with pytest.raises(ValueError, match="τ"):
                await before.finish()
            with pytest.raises(RuntimeError, match="no text for it"):
                await after.finish()
            later = server.submit("hello", LIMIT)
            await asyncio.gather(good.finish(), later.finish())
            return good, later

    for job in run(serve()):
        check_same_passes(job.run, decode(checkpoint, "hello", LIMIT).finish())


def test_a_single_batch_raises_the_error_of_a_sequence(checkpoint):
    taus = iter([0.9, 0.9, 7.0])
    with pytest.raises(ValueError, match="τ"):
        decode_batch(checkpoint, ["hello"], replace(LIMIT, tau=lambda: next(taus))).finish()
