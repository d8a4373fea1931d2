"""Measurements of served requests, against values worked out by hand."""

import pytest
from web import run

from mars_demo import tasks
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Pass, Run, Settings, Slot
from mars_demo.evaluation import load_test
from mars_demo.serving import server
from mars_demo.serving.row import Row
from mars_demo.serving.server import Job, Moment

EXAMPLES = tasks.mixed(1)


def request(example: tasks.Example, arrived: float, first: float, finished: float, accepted: list[int]):
    """A request whose answer is that of the example, or an empty one, in forwards of so many tokens."""
    run = Run(Settings("mars", "made", 9, 8, 0.9, example.prompt, 4, "cpu", "float32", 160))
    for number, count in enumerate(accepted, start=1):
        text = example.answer if number == 1 else ""
        slots = tuple(Slot(1, text if slot == 0 else "", 0.9) for slot in range(count))
        run.add(Pass(number, 0.9, 9, 1.0, count, slots, "eos" if number == len(accepted) else None))
    return example, Job(run, arrived, Row(run, iter(()), Request("mars")), first, finished)


class Ended:
    """A server after its work: all that is asked of it are its moments."""

    def __init__(self, waiting: list[int]):
        self.moments = [Moment(float(at), count, 1, 0.9) for at, count in enumerate(waiting)]


def test_latencies_rates_and_the_queue_are_those_worked_out_by_hand():
    one = [
        request(EXAMPLES[0], arrived=0.0, first=0.5, finished=2.5, accepted=[3, 2]),
        request(EXAMPLES[1], arrived=1.0, first=1.1, finished=4.1, accepted=[1, 1, 2]),
    ]
    wrong = request(EXAMPLES[2], arrived=0.0, first=1.0, finished=6.0, accepted=[6])
    wrong[1].run.stop = "length"  # never ended, so it is not right
    found = load_test.measured([(one, Ended([0, 3])), ([wrong], Ended([1, 0]))])
    assert found["requests"] == 3
    assert found["latency"] == pytest.approx({"p50": 3.1, "p95": 6.0})
    assert found["first_token"] == pytest.approx({"p50": 0.5, "p95": 1.0})
    assert found["ms_per_token"] == pytest.approx(1000 * (2.0 / 4 + 3.0 / 3 + 5.0 / 5) / 3)
    assert found["tokens_per_second"] == pytest.approx((5 + 4 + 6) / (4.1 + 6.0))
    assert found["tokens_per_forward"] == pytest.approx(15 / 6)
    assert found["queue"] == {"mean": 1.0, "most": 3}
    assert found["accuracy"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("count", "shares"), [(199, {"p50": 100, "p95": 190}), (200, {"p50": 100, "p95": 190, "p99": 198})]
)
def test_the_99th_percentile_is_told_of_hundreds_only(count, shares):
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
        assert count == pytest.approx(1000 * rate, abs=4 * (1000 * rate) ** 0.5)  # Poisson


def test_a_replay_of_more_forwards_than_the_server_keeps_is_refused(mars_tiny, monkeypatch):
    monkeypatch.setattr(server, "MOMENTS", 3)
    with pytest.raises(ValueError, match=r"\b3\b"):
        run(load_test.serve(mars_tiny, 1.0, [0.0]))
