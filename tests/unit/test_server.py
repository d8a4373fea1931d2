"""The batch server: requests that join, stream and leave, and τ under load."""

import asyncio
from dataclasses import replace

import pytest
from greedy import check_same_passes
from web import run

from mars_demo import tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Pass, Run, Settings, Slot
from mars_demo.evaluation import load_test
from mars_demo.serving import server
from mars_demo.serving.batch_sequence import BatchSequence
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.serving.server import Controller, Job, Moment, Server, replay

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
            return requests, server.moments

    requests, moments = run(serve())
    for job, prompt in zip(requests, PROMPTS):
        check_alone(mars_tiny, job, prompt)
    assert all(0 <= r.arrived < r.first <= r.finished for r in requests)
    assert max(m.active for m in moments) == 3
    assert max(m.waiting for m in moments) == len(PROMPTS) - 3
    assert moments[-1].waiting == 0


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


def test_a_single_batch_raises_the_error_of_a_sequence(checkpoint):
    taus = iter([0.9, 0.9, 7.0])
    with pytest.raises(ValueError, match="τ"):
        decode_batch(checkpoint, ["hello"], replace(LIMIT, tau=lambda: next(taus))).finish()


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
    # τ is read at each forward, not when a request arrives.
    assert all({step.tau for step in r.run.passes} <= {m.tau for m in moments} for r in requests)
    assert any(r.run.passes[0].tau < 1 for r in requests)


EXAMPLES = tasks.mixed(1)


def request(example: tasks.Example, arrived: float, first: float, finished: float, accepted: list[int]):
    """Return a request whose forwards accept these numbers of tokens, and whose answer is right."""
    run = Run(Settings("mars", "made", 9, 8, 0.9, example.prompt, 4, "cpu", "float32", 160))
    for number, count in enumerate(accepted, start=1):
        text = example.answer if number == 1 else ""
        slots = tuple(Slot(1, text if slot == 0 else "", 0.9) for slot in range(count))
        run.add(Pass(number, 0.9, 9, 1.0, count, slots, "eos" if number == len(accepted) else None))
    return example, Job(run, arrived, BatchSequence(run, iter(()), Request("mars")), first, finished)


class Ended:
    """A finished server, of which only the moments are read."""

    def __init__(self, waiting: list[int]):
        self.moments = [Moment(float(at), count, 1, 0.9) for at, count in enumerate(waiting)]


def test_latencies_rates_and_the_queue_equal_a_calculation_by_hand():
    one = [
        request(EXAMPLES[0], arrived=0.0, first=0.5, finished=2.5, accepted=[3, 2]),
        request(EXAMPLES[1], arrived=1.0, first=1.1, finished=4.1, accepted=[1, 1, 2]),
    ]
    wrong = request(EXAMPLES[2], arrived=0.0, first=1.0, finished=6.0, accepted=[6])
    wrong[1].run.stop = "length"  # truncated, so it is wrong
    result = load_test.measured([(one, Ended([0, 3])), ([wrong], Ended([1, 0]))])
    assert result["requests"] == 3
    assert result["latency"] == pytest.approx({"p50": 3.1, "p95": 6.0})
    assert result["first_token"] == pytest.approx({"p50": 0.5, "p95": 1.0})
    assert result["ms_per_token"] == pytest.approx(1000 * (2.0 / 4 + 3.0 / 3 + 5.0 / 5) / 3)
    assert result["tokens_per_second"] == pytest.approx((5 + 4 + 6) / (4.1 + 6.0))
    assert result["tokens_per_forward"] == pytest.approx(15 / 6)
    assert result["queue"] == {"mean": 1.0, "most": 3}
    assert result["accuracy"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("count", "shares"), [(199, {"p50": 100, "p95": 190}), (200, {"p50": 100, "p95": 190, "p99": 198})]
)
def test_the_99th_percentile_needs_hundreds_of_requests(count, shares):
    assert load_test.percentiles(range(1, count + 1)) == shares


def test_the_baseline_computes_no_masks(mars_tiny):
    answered, server = run(load_test.serve(mars_tiny, load_test.POLICIES[load_test.BASELINE], [0.0, 0.0]))
    passes = [step for _, one in answered for step in one.run.passes]
    assert {len(step.slots) for step in passes} == {1}
    assert load_test.measured([(answered, server)])["tokens_per_forward"] == 1


def test_arrivals_follow_the_load_and_differ_by_seed():
    pattern = load_test.loads(300.0)["burst"]
    times = list(load_test.arrivals(pattern, capacity=10.0, seed=1))
    assert times == sorted(times) != list(load_test.arrivals(pattern, 10.0, seed=2))
    for start, rate in ((0, 0.7), (100, 3.0), (200, 0.7)):
        count = sum(start <= time < start + 100 for time in times)
        assert count == pytest.approx(1000 * rate, abs=4 * (1000 * rate) ** 0.5)  # a Poisson process


def test_a_replay_longer_than_the_history_of_the_server_is_refused(mars_tiny, monkeypatch):
    monkeypatch.setattr(server, "MOMENTS", 3)
    with pytest.raises(ValueError, match=r"\b3\b"):
        run(load_test.serve(mars_tiny, 1.0, [0.0]))
