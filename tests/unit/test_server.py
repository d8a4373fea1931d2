"""The batch server: requests that join, stream and leave, and τ under load."""

import asyncio
from dataclasses import replace

import pytest
from greedy import check_same_passes
from web import run

from mars_demo import tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.serving.server import Controller, Job, Server

PROMPTS = [tasks.held_out(name, 1)[0].prompt for name in tasks.TASKS]
LIMIT = Request("mars", max_new_tokens=40)


def check_alone(model, job: Job, prompt: str, tau: float = 0.95) -> None:
    """Assert that a job has the answer that its prompt gets alone."""
    check_same_passes(job.run, decode(model, prompt, replace(LIMIT, tau=tau)).finish())


def test_every_prompt_gets_the_answer_it_gets_alone(mars_tiny):
    async def serve():
        async with Server(mars_tiny, size=3, request=LIMIT) as server:
            requests = [server.submit(prompt) for prompt in PROMPTS]
            await asyncio.gather(*(request.finish() for request in requests))
            return requests

    requests = run(serve())
    for job, prompt in zip(requests, PROMPTS):
        check_alone(mars_tiny, job, prompt)
    assert all(0 <= r.arrived <= r.started < r.first <= r.finished for r in requests)
    active = [sum(other.started <= r.started < other.finished for other in requests) for r in requests]
    assert max(active) == 3


@pytest.mark.parametrize("mode", ["lossless", "jacobi"])
def test_a_served_request_has_the_forwards_of_a_batch(mars_tiny, mode):
    """Take a model whose blocks are smaller than Jacobi's window and than an n-gram draft."""
    narrow, request = replace(mars_tiny, block_size=3), Request(mode, max_new_tokens=40)

    async def serve():
        async with Server(narrow, size=3) as server:
            jobs = [server.submit(prompt, request) for prompt in PROMPTS[:6]]
            return [await job.finish() for job in jobs]

    batch = decode_batch(narrow, PROMPTS[:6], request, size=3).finish()
    for job, alone in zip(run(serve()), batch.runs, strict=True):
        check_same_passes(job.run, alone)
        assert job.run.settings.window == alone.settings.window
        assert max(step.drafts for step in job.run.passes) == alone.settings.window - 1


def test_a_request_may_set_its_own_tau_and_the_global_one_acts_mid_answer(mars_tiny):
    async def serve():
        async with Server(mars_tiny, size=3, tau=1.0, request=LIMIT) as server:
            mine, other = server.submit(PROMPTS[1], replace(LIMIT, tau=0.9)), server.submit(PROMPTS[1])
            passes = aiter(other)
            for _ in range(3):
                await anext(passes)
            server.tau = 0.5
            await asyncio.gather(mine.finish(), other.finish())
            return mine, other

    mine, other = run(serve())
    assert {step.tau for step in mine.run.passes} == {0.9}
    taus = [step.tau for step in other.run.passes]
    assert taus[:3] == [1.0] * 3 and taus[-1] == 0.5


def test_an_invalid_tau_is_refused_when_set_and_affects_no_request(checkpoint):
    async def serve():
        async with Server(checkpoint, size=2, tau=0.9, request=LIMIT) as server:
            jobs = [server.submit("hello"), server.submit("world")]
            await anext(aiter(jobs[0]))
            for wrong in (1.5, -0.1, float("nan"), "0.9", None, True):
                with pytest.raises(ValueError, match="τ"):
                    server.tau = wrong
            assert server.tau == 0.9
            await asyncio.gather(*(job.finish() for job in jobs))
            return jobs

    for job, prompt in zip(run(serve()), ("hello", "world")):
        check_alone(checkpoint, job, prompt, 0.9)
    with pytest.raises(ValueError, match="τ"):
        Server(checkpoint, tau=2)


def test_a_failing_request_does_not_affect_the_others(checkpoint):
    """Fail before a forward, by an invalid τ of one request, and after it, by the text of another."""
    taus = iter([0.9, 0.9, 7.0])

    class Breaks(list):
        def append(self, token):
            if len(self) == 2:
                raise RuntimeError("no text for it")
            super().append(token)

    async def serve():
        async with Server(checkpoint, size=3, tau=1.0, request=LIMIT) as server:
            good = server.submit("hello")
            before = server.submit("hello", replace(LIMIT, tau=lambda: next(taus)))
            after = server.submit("hello", replace(LIMIT, tau=1.0))
            after.sequence.strategy.gi_frame.f_locals["answer"].ids = Breaks()
            with pytest.raises(ValueError, match="τ"):
                await before.finish()
            with pytest.raises(RuntimeError, match="no text for it"):
                await after.finish()
            later = server.submit("hello")
            await asyncio.gather(good.finish(), later.finish())
            return good, later

    for job in run(serve()):
        check_alone(checkpoint, job, "hello", 1.0)


def test_a_single_batch_raises_the_error_of_a_sequence(checkpoint):
    taus = iter([0.9, 0.9, 7.0])
    with pytest.raises(ValueError, match="τ"):
        decode_batch(checkpoint, ["hello"], replace(LIMIT, tau=lambda: next(taus))).finish()


def test_the_controller_lowers_tau_as_the_queue_grows_and_raises_it_again(mars_tiny):
    controller = Controller(low=0.6, high=1.0)
    assert [controller.tau(load) for load in (0, 0.25, 0.5, 1, 3)] == pytest.approx(
        [1.0, 0.9, 0.8, 0.6, 0.6]
    )

    async def serve():
        async with Server(mars_tiny, size=2, tau=controller, request=LIMIT) as server:
            requests = [server.submit(prompt) for prompt in PROMPTS]
            await asyncio.gather(*(request.finish() for request in requests))
            return requests

    requests = run(serve())
    taus = [[step.tau for step in request.run.passes] for request in requests]
    assert {tau for each in taus for tau in each} <= {controller.tau(n / 2) for n in range(len(PROMPTS))}
    # τ is read at each forward, not when a request arrives.
    assert [each[0] for each in taus[:2]] == [controller.low] * 2
    assert max(zip(requests, taus), key=lambda pair: pair[0].finished)[1][-1] == controller.high
