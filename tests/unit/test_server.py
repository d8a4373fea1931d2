"""The scheduler: who comes, streams and leaves, and what τ does under load."""

import asyncio
from dataclasses import replace

import pytest
from greedy import check_same_passes
from random_models import random_model
from web import run

from mars_demo import tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.checkpoint import wrap
from mars_demo.serving import server
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.serving.server import Controller, Job, Server, replay

PROMPTS = [tasks.held_out(name, 1)[0].prompt for name in tasks.TASKS]
LIMIT = Request("mars", max_new_tokens=40)
HANG_GUARD = 300  # seconds


@pytest.fixture(scope="module")
def checkpoint(tokenizer):
    return wrap("random", random_model("llama", tokenizer, context=256), tokenizer)


def check_alone(model, job: Job, prompt: str, tau: float = 0.95) -> None:
    """Assert that a job has the answer that its prompt gets alone."""
    check_same_passes(job.run, decode(model, prompt, replace(LIMIT, tau=tau)).finish())


def test_every_prompt_gets_the_answer_it_would_get_alone(mars_tiny):
    async def serve():
        async with Server(mars_tiny, size=3, request=LIMIT) as server:
            requests = [server.submit(prompt) for prompt in PROMPTS]
            await asyncio.gather(*(request.finish() for request in requests))
            return requests, server.moments

    requests, moments = run(serve())
    for job, prompt in zip(requests, PROMPTS):
        check_alone(mars_tiny, job, prompt)
    assert all(0 <= r.arrived < r.first <= r.finished for r in requests)
    assert max(m.active for m in moments) == 3
    assert max(m.waiting for m in moments) == len(PROMPTS) - 3
    assert moments[-1].waiting == 0


def test_passes_stream_while_later_requests_still_arrive(mars_tiny):
    async def serve():
        async with Server(mars_tiny, size=2, tau=1.0, request=LIMIT) as server:
            first = server.submit(PROMPTS[0])
            passes = aiter(first)
            seen = [await anext(passes), await anext(passes)]
            second = server.submit(PROMPTS[1])
            await second.finish()
            seen += [step async for step in passes]
            return first, second, seen

    first, second, seen = run(serve())
    assert [slot.id for step in seen for slot in step.slots[: step.accepted]] == first.run.token_ids
    check_alone(mars_tiny, first, PROMPTS[0], 1.0)
    check_alone(mars_tiny, second, PROMPTS[1], 1.0)


def test_a_request_may_bring_its_own_tau_and_the_global_one_acts_in_mid_answer(mars_tiny):
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


def test_who_cancels_leaves_at_once_in_the_queue_and_in_the_batch(mars_tiny):
    async def serve():
        async with Server(mars_tiny, size=1, tau=1.0, request=LIMIT) as server:
            computing, queued, last = (server.submit(prompt) for prompt in PROMPTS[:3])
            await anext(aiter(computing))
            computing.cancel()
            queued.cancel()
            await asyncio.gather(*(request.finish() for request in (computing, queued, last)))
            return computing, queued, last

    computing, queued, last = run(serve())
    assert computing.run.stop == queued.run.stop == "stopped"
    assert computing.run.tokens < LIMIT.max_new_tokens and queued.run.tokens == 0
    check_alone(mars_tiny, last, PROMPTS[2], 1.0)


def test_a_bad_request_is_refused_and_nobody_else_notices(checkpoint):
    async def serve():
        async with Server(checkpoint, size=2, request=LIMIT) as server:
            good = server.submit("hello")
            for prompt, settings, message in (
                ("", {}, "prompt"),
                ("word " * 900, {}, r"\b255\b"),
                ("hi", {"window": 40}, r"\b40\b.*\b9\b"),
                ("hi", {"mode": "jacobi", "window": 40}, r"\b40\b.*\b9\b"),
            ):
                with pytest.raises(ValueError, match=message):
                    server.submit(prompt, replace(LIMIT, **settings))
            return await good.finish()

    check_alone(checkpoint, run(serve()), "hello")


def test_a_forward_that_fails_ends_its_rows_and_the_next_ones_are_served(checkpoint, monkeypatch):
    def fail_once(self):
        monkeypatch.undo()
        raise RuntimeError("out of memory")

    monkeypatch.setattr(server.Batch, "step", fail_once)

    async def serve():
        async with Server(checkpoint, size=1, request=LIMIT) as server:
            unlucky, next_one = server.submit("hello"), server.submit("hello")
            with pytest.raises(RuntimeError, match="out of memory"):
                await unlucky.finish()
            return await next_one.finish()

    check_alone(checkpoint, run(serve()), "hello")


def test_a_tau_that_is_none_is_refused_when_it_is_set_and_nobody_notices(checkpoint):
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


def test_a_fault_of_one_row_is_no_fault_of_the_others(checkpoint):
    """Before its forward, where a request's own τ goes wrong, and after it, where its text does."""
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
            after.row.strategy.gi_frame.f_locals["answer"].ids = Breaks()
            with pytest.raises(ValueError, match="τ"):
                await before.finish()
            with pytest.raises(RuntimeError, match="no text for it"):
                await after.finish()
            later = server.submit("hello")
            await asyncio.gather(good.finish(), later.finish())
            return good, later

    for job in run(serve()):
        check_alone(checkpoint, job, "hello", 1.0)


def test_a_batch_of_ones_own_raises_the_fault_of_a_row(checkpoint):
    taus = iter([0.9, 0.9, 7.0])
    with pytest.raises(ValueError, match="τ"):
        decode_batch(checkpoint, ["hello"], replace(LIMIT, tau=lambda: next(taus))).finish()


def test_only_the_last_moments_are_kept(checkpoint, monkeypatch):
    monkeypatch.setattr(server, "MOMENTS", 10)

    async def serve():
        async with Server(checkpoint, size=1, tau=1.0, request=LIMIT) as server:
            await server.submit("hello").finish()
            return server

    served = run(serve())
    assert len(served.moments) == 10 < served.forwards
    assert served.moments[-1].seconds <= served.clock


def test_a_conversation_is_answered_as_it_is_alone(mars_tiny):
    messages = [
        {"role": "user", "content": PROMPTS[0]},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": PROMPTS[1]},
    ]

    async def serve():
        async with Server(mars_tiny, size=2, request=LIMIT) as server:
            return await server.submit(messages).finish()

    expected = decode(mars_tiny, None, replace(LIMIT, tau=0.95), messages=messages).finish()
    check_same_passes(run(serve()).run, expected)


def test_the_controller_lowers_tau_as_the_queue_grows_and_raises_it_again(mars_tiny):
    controller = Controller(low=0.6, high=1.0, full=4)
    assert [controller.tau(n) for n in (0, 1, 2, 4, 9)] == pytest.approx([1.0, 0.9, 0.8, 0.6, 0.6])

    async def serve():
        async with Server(mars_tiny, size=2, tau=controller, request=LIMIT) as server:
            requests = await replay(server, [(0.0, prompt) for prompt in PROMPTS])
            return server.moments, requests

    moments, requests = run(serve())
    assert min(m.tau for m in moments) == pytest.approx(0.6)
    assert moments[-1].tau == 1.0
    assert all(m.tau == controller.tau(m.waiting) for m in moments)
    # τ is read when a forward is computed, not when its request came.
    assert all({step.tau for step in r.run.passes} <= {m.tau for m in moments} for r in requests)
    assert any(r.run.passes[0].tau < 1 for r in requests)


def test_a_server_that_is_left_ends_its_requests(checkpoint):
    """The one in the batch and the one in the queue, and no forward runs for them any more."""

    async def serve():
        async with Server(checkpoint, size=1, request=LIMIT) as server:
            computing, queued = server.submit("hello"), server.submit("hello")
            first = await anext(aiter(computing))
        left = [list(request.run.passes) for request in (computing, queued)], list(server.moments)
        streamed = [first, *[step async for step in computing]]
        assert [step async for step in queued] == []
        return computing, queued, server, left, streamed

    computing, queued, server, left, streamed = run(asyncio.wait_for(serve(), HANG_GUARD))
    assert computing.run.stop == queued.run.stop == "stopped"
    assert left == ([computing.run.passes, queued.run.passes], list(server.moments))
    assert computing.run.passes == streamed and queued.run.passes == []
    assert len(server.moments) <= 2  # the one that was seen, and the one in flight when it was left
    tokens = computing.run.token_ids
    assert 0 < len(tokens) < LIMIT.max_new_tokens
    whole = decode(checkpoint, "hello", replace(LIMIT, tau=0.95)).finish()
    assert tokens == whole.token_ids[: len(tokens)]
    assert all(request.arrived < request.finished <= server.clock for request in (computing, queued))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda c: Server(c, size=0), r"size.*\b0\b"),
        (lambda c: Controller(low=0.9, high=0.5), r"τ.*0\.9.*0\.5"),
        (lambda c: Controller(full=0), r"\b0\b"),
    ],
)
def test_bad_settings_are_named(checkpoint, make, message):
    with pytest.raises(ValueError, match=message):
        make(checkpoint)
