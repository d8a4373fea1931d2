"""The queueing simulation, against exact results of queueing theory."""

import math
import random
import statistics
from collections.abc import Sequence

import pytest

from mars_demo.evaluation.replicas import Load, interpolated, needed, sampled, simulate

COUNT = 60_000
EVERYBODY = 10**9  # visitors, so many that nobody comes twice


def exponential(rng: random.Random) -> tuple[float, float]:
    seconds = rng.expovariate(1.0)
    return seconds, seconds


def fixed(rng: random.Random) -> tuple[float, float]:
    return 0.25, 1.0


def is_mean(values: Sequence[float], exact: float) -> bool:
    """Within four standard errors, which are those of the means of long batches: neighbours are alike."""
    warm = values[len(values) // 20 :]
    size = len(warm) // 30
    means = [statistics.mean(warm[size * i : size * (i + 1)]) for i in range(30)]
    error = statistics.stdev(means) / 30**0.5
    assert error < 0.1 * exact, "too few requests to tell"
    return abs(statistics.mean(means) - exact) < 4 * error


def erlang_c(servers: int, load: float) -> float:
    """The probability that a request waits, of M/M/c."""
    full = load**servers / math.factorial(servers) * servers / (servers - load)
    return full / (sum(load**k / math.factorial(k) for k in range(servers)) + full)


@pytest.mark.full
@pytest.mark.parametrize("rate", [0.5, 0.8])
def test_one_server_waits_as_m_m_1(rate):
    served = simulate(Load(rate, 1), exponential, [1.0], 1, sticky=False, count=COUNT)
    waited = [asked.waited for asked in served]
    assert is_mean(waited, rate / (1 - rate))
    for t in (0.0, 1.0, 3.0):  # P(W > t) = ρ exp(-(μ - λ) t)
        assert is_mean([float(wait > t) for wait in waited], rate * math.exp(-(1 - rate) * t))


@pytest.mark.full
@pytest.mark.parametrize(("replicas", "places"), [(3, 1), (1, 3), (2, 2)])
def test_a_common_queue_waits_as_m_m_c(replicas, places):
    """Places that do not slow each other down are servers, on one replica or on several."""
    servers, rate = replicas * places, 0.8 * replicas * places
    served = simulate(Load(rate, 5), exponential, [1.0] * places, replicas, sticky=False, count=COUNT)
    assert is_mean([asked.waited for asked in served], erlang_c(servers, rate) / (servers - rate))


@pytest.mark.full
def test_sticky_visitors_wait_as_at_servers_of_their_own():
    load = Load(0.7 * 3, EVERYBODY)
    served = simulate(load, exponential, [1.0], 3, sticky=True, count=COUNT)
    assert is_mean([asked.waited for asked in served], 0.7 / 0.3)


@pytest.mark.full
@pytest.mark.parametrize("draw", [exponential, fixed])
def test_a_shared_machine_takes_as_long_as_processor_sharing(draw):
    """M/G/1-PS: 1 / (μ - λ) on average, whatever the distribution of the work."""
    shared = [float(k) for k in range(1, 400)]
    served = simulate(Load(0.7, 1), draw, shared, 1, sticky=False, count=COUNT)
    assert max(asked.waited for asked in served) == 0
    assert is_mean([asked.finished - asked.arrived for asked in served], 1 / (1 - 0.7))


@pytest.mark.full
def test_work_that_must_wait_has_the_variance_of_its_times():
    """M/D/1: half the waiting of M/M/1 (Pollaczek and Khinchine)."""
    served = simulate(Load(0.8, 1), fixed, [1.0], 1, sticky=False, count=COUNT)
    assert is_mean([asked.waited for asked in served], 0.5 * 0.8 / 0.2)
    assert all(asked.first == pytest.approx(asked.begun + 0.25) for asked in served)


def test_two_requests_by_hand():
    """Both on a replica that is half as fast for two: the second comes when the first has done half."""
    times = iter([(0.5, 1.0), (0.2, 1.0)])

    class Arrivals(random.Random):
        def expovariate(self, rate):
            return 0.5

    served = simulate_with(Arrivals(), lambda rng: next(times), [1.0, 2.0])
    one, other = served
    assert (one.arrived, one.begun, one.first, one.finished) == pytest.approx((0.5, 0.5, 1.0, 2.0))
    assert (other.arrived, other.begun, other.first, other.finished) == pytest.approx((1.0, 1.0, 1.4, 2.5))


def simulate_with(rng: random.Random, draw, slowdown: list[float]):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mars_demo.evaluation.replicas.random.Random", lambda seed: rng)
        return simulate(Load(1.0, 1), draw, slowdown, 1, sticky=False, count=2)


def test_the_same_seed_is_the_same_simulation_and_sticky_visitors_keep_their_replica():
    load, draw = Load(3.0, 7), sampled([(0.1, 0.5), (0.2, 1.0)])
    runs = [simulate(load, draw, [1.0, 1.4], 4, sticky=True, count=500, seed=seed) for seed in (1, 1, 2)]
    times = [[(asked.begun, asked.finished) for asked in run] for run in runs]
    assert times[0] == times[1] != times[2]
    assert all(asked.arrived <= asked.begun < asked.first < asked.finished for asked in runs[0])


def test_a_common_queue_never_needs_more_replicas_than_sticky_visitors():
    def simulated(sticky):
        def seconds(replicas):
            served = simulate(Load(4.0, 12), exponential, [1.0], replicas, sticky=sticky, count=5000)
            return [asked.waited for asked in served]

        return needed(seconds, bound=4.0, share=0.95, most=12)

    assert 4 < simulated(False) <= simulated(True)
    assert needed(lambda replicas: [10.0 / replicas], bound=2.0, share=0.95, most=10) == 5
    assert needed(lambda replicas: [10.0 / replicas], bound=2.0, share=0.95, most=4) is None


def test_slowdowns_between_the_measured_ones():
    assert interpolated({1: 1.0, 4: 1.6, 8: 4.0}) == pytest.approx([1, 1.2, 1.4, 1.6, 2.2, 2.8, 3.4, 4])
    assert interpolated({1: 1.0}) == [1.0]


@pytest.mark.parametrize("wrong", [{"replicas": 0}, {"load": Load(0, 1)}, {"slowdown": []}, {"count": 0}])
def test_nothing_to_simulate_is_refused(wrong):
    right = {"load": Load(1.0, 1), "draw": fixed, "slowdown": [1.0], "replicas": 1, "sticky": False}
    with pytest.raises(ValueError):
        simulate(**right | wrong)
