"""The benchmarks of the endpoint: what they make of guidellm's report, and a short run of each."""

import json

import pytest

from benchmarks import faults, serving, timing
from benchmarks.deployed import EXAMPLES
from mars_demo import tasks
from mars_demo.evaluation.task_sets import MAX_NEW_TOKENS


def answered(start: float, output: str, first: float, between: float, tokens: int = 9) -> dict:
    """Return an answer of guidellm's report that was sent 3 ms late."""
    message = {"role": "user", "content": [{"type": "text", "text": example.prompt}]}
    return {
        "request_args": json.dumps({"body": {"messages": [message]}}),
        "output": output,
        "output_tokens": tokens,
        "request_start_time": start,
        "time_to_first_token_ms": first,
        "inter_token_latency_ms": between,
        "request_dispatch_delay": 0.003,
    }


example = next(one for one in EXAMPLES.values() if tasks.task(one.task).grade(one, one.answer))


def report(kind: str, answers: list[dict]) -> dict:
    return {
        "config": {"strategy": {"type_": kind}},
        "requests": {"successful": answers, "errored": [{}], "incomplete": []},
        "duration": 2.0,
        "cpu": 0.5,
    }


def test_measurements_equal_a_calculation_by_hand():
    answers = [
        answered(7.0, example.answer, 20.0, 4.0),
        answered(8.0, example.answer, 30.0, 0.0, tokens=1),  # no time per output token
        answered(8.5, "no", 40.0, 6.0),
        answered(9.0, example.answer, 10.0, 5.0, tokens=MAX_NEW_TOKENS),  # truncated, so it is wrong
    ]
    trace = serving.measured(report("trace", answers[::-1]))
    assert trace["ttft"] == pytest.approx([23.0, 33.0, 43.0, 13.0]) and trace["late"] == pytest.approx(3.0)
    # The first request of the one client does not count, and clients that wait plan no arrivals.
    closed = serving.measured(report("concurrent", answers), clients=1)
    assert closed["ttft"] == [30.0, 40.0, 10.0] and closed["late"] == 0
    total = serving.summary([trace, closed])
    assert total["requests"] == 7 and total["failed"] == 2
    assert total["requests_per_second"] == pytest.approx((3 + 2) / (2.0 + 1.0))
    assert total["ttft"] == pytest.approx({"p50": 30.0, "p95": 43.0, "p99": 43.0})
    assert total["tpot"] == {"p50": 5.0, "p95": 6.0, "p99": 6.0}
    assert total["accuracy"] == 3 / 7 and total["generator"] == 0.25


def test_percentiles_are_values():
    assert timing.percentiles(range(1, 201)) == {"p50": 100, "p95": 190, "p99": 198}


def test_arrivals_follow_the_load_and_differ_by_seed():
    times = list(serving.arrivals(capacity=10.0, seconds=300.0, seed=1))
    assert times == sorted(times) != list(serving.arrivals(10.0, 300.0, 2))
    for start, rate in ((0, 0.7), (100, 3.0), (200, 0.7)):
        count = sum(start <= time < start + 100 for time in times)
        assert count == pytest.approx(1000 * rate, abs=4 * (1000 * rate) ** 0.5)  # a Poisson process


@pytest.mark.full
def test_the_endpoint_is_measured_by_guidellm(tmp_path, monkeypatch):
    policies = (serving.BASELINE, serving.CONTROLLED)
    monkeypatch.setattr(serving, "POLICIES", {name: serving.POLICIES[name] for name in policies})
    output = tmp_path / "serving.json"
    serving.measure(replicas=[0], streams=[2], requests=12, burst=3.0, seeds=[1], output=output)
    measured = json.loads(output.read_text("utf-8"))
    for row in (*measured["sweeps"], *measured["bursts"]["rows"]):
        assert row["requests"] and not row["failed"] and row["accuracy"] > 0.5
        assert 0 < row["ttft"]["p50"] <= row["ttft"]["p99"]
    ar, controlled = measured["bursts"]["rows"]
    times = list(serving.arrivals(measured["bursts"]["capacity"], 3.0, 1))
    assert ar["requests"] == controlled["requests"] == len(times) == len(ar["picture"])
    assert [arrived for arrived, _, _ in ar["picture"]] == pytest.approx(times, abs=0.002)
    assert "nan" not in serving.table(output)


@pytest.mark.full
def test_faulty_clients_are_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(faults, "LEAVING", 2)
    monkeypatch.setattr(faults, "AT_ONCE", (20,))
    monkeypatch.setattr(faults.LIMITS.__class__.waiting, "default", 4)
    output = tmp_path / "faults.json"
    faults.measure(replicas=0, requests=20, output=output)
    measured = json.loads(output.read_text("utf-8"))
    (at_once,) = measured["at_once"]
    assert at_once["outcomes"]["429 with Retry-After"] and sum(at_once["outcomes"].values()) == 20
    assert set(at_once["outcomes"]) == {"200", "429 with Retry-After"}
    assert set(measured["large"]["statuses"]) == {"413"} and measured["slow"]["held"] == 0
    assert not any(row["failed"] for row in (measured["alone"], measured["slow"]["others"]))
    assert max(measured["left"]["forwards"]) < 90  # the answer is longer
    assert "413" in faults.table(output)
