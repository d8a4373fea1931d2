"""The scheduler: turns of forwards, priorities of races, long and background work."""

import functools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from greedy import check_same_passes
from web import until

from mars_demo.core import scheduler
from mars_demo.core.scheduler import BACKGROUND, LONG, RACE, SCHEDULER, WAITING, Scheduler
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.ui import options, racing
from mars_demo.ui.hosting.registry import MODELS

GUARD = 300  # seconds
PROMPTS = [
    "Which city is the capital of Latvia?",
    "Sort these numbers: 7, 3, 12, 1.",
    "What is 12 plus 30?",
]


# --------------------------------------------------------------------------------------------- turns


def together(works):
    """Run functions in threads and return their results in order."""
    with ThreadPoolExecutor(len(works)) as threads:
        return [future.result(GUARD) for future in [threads.submit(work) for work in works]]


def until_waiting(scheduler: Scheduler, count: int) -> None:
    """Wait until `count` threads wait for a turn."""
    until(lambda: len(scheduler._waiting) >= count)


def test_the_longest_waiting_thread_comes_first():
    instance, order = Scheduler(), []

    def take(name):
        with instance.turn(), instance.turn():  # a turn within a turn is part of it
            order.append(name)
            if name == 2:
                raise RuntimeError  # still passes the turn on

    with ThreadPoolExecutor(5) as threads, instance.turn():
        for number in range(5):
            threads.submit(take, number)
            until_waiting(instance, number + 1)
    assert order == [0, 1, 2, 3, 4]
    assert not instance._taken


def test_concurrent_runs_and_batches_alternate_and_answer_as_alone(mars_tiny):
    request = Request("mars", 0.8, max_new_tokens=40)
    alone = [decode(mars_tiny, prompt, request).finish() for prompt in PROMPTS]
    order, ready = [], threading.Barrier(len(PROMPTS))

    def race(number):
        run = decode(mars_tiny, PROMPTS[number], request)
        ready.wait(GUARD)
        for _ in run:
            order.append(number)
        return run

    races = [functools.partial(race, number) for number in range(len(PROMPTS))]
    *runs, batch = together([*races, decode_batch(mars_tiny, PROMPTS, request, size=3).finish])
    for run, expected in zip([*runs, *batch.runs], [*alone, *alone]):
        check_same_passes(run, expected)
    shortest = min(run.forwards for run in runs)
    # While all run, none is more than a few forwards ahead: those before the others wait for a turn.
    first = order[: shortest * len(PROMPTS)]
    counts = [first.count(number) for number in range(len(PROMPTS))]
    assert max(counts) - min(counts) <= shortest // 2


def test_a_record_leaves_out_the_wait_for_a_turn(mars_tiny, monkeypatch):
    """Let another thread take a turn of one hour, which the record must not include."""
    hour, late, perf_counter = 3600.0, 0.0, time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: perf_counter() + late)

    def race():
        return decode(mars_tiny, PROMPTS[0], Request("ar", max_new_tokens=2)).finish()

    with ThreadPoolExecutor(1) as threads:
        with SCHEDULER.turn():
            racing = threads.submit(race)
            until_waiting(SCHEDULER, 1)
            late = hour
        run = racing.result(GUARD)
    assert 0 < run.seconds < hour / 2


# ---------------------------------------------------------------------------------------- priorities


def counting(instance: Scheduler, kind: str):
    def count():
        yield from (1, 2, 3)

    return instance.scheduled(count, kind)()


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(scheduler, "PATIENCE", 0.01)


@pytest.mark.parametrize("kind", [RACE, LONG])
def test_background_work_waits_for_runs_of_visitors(kind):
    instance = Scheduler()
    steps = counting(instance, BACKGROUND)
    assert next(steps) == 1
    with instance.running(kind):
        assert [next(steps), next(steps)] == [WAITING, WAITING]
    assert list(steps) == [2, 3]


def test_a_race_waits_for_the_current_background_step():
    instance, order = Scheduler(), []

    def race():
        with instance.running(), instance.turn():
            order.append("race")

    with ThreadPoolExecutor(1) as threads, instance.step(BACKGROUND) as is_allowed:
        threads.submit(race)
        until_waiting(instance, 1)
        order.append("step")
    assert is_allowed and order == ["step", "race"]


def test_long_work_waits_for_races_up_to_a_limit(monkeypatch):
    instance, order, started, ended = Scheduler(), [], threading.Event(), threading.Event()
    steps = counting(instance, LONG)
    assert next(steps) == 1

    def race():
        with instance.running():
            started.set()
            ended.wait(GUARD)
            order.append("race")

    monkeypatch.setattr(scheduler, "RACE_WAIT", GUARD)
    with ThreadPoolExecutor(2) as threads:
        threads.submit(race)
        assert started.wait(GUARD)
        step = threads.submit(lambda: order.append(next(steps)))
        assert not step.done()
        ended.set()
    assert order == ["race", 2]
    monkeypatch.setattr(scheduler, "RACE_WAIT", 0.05)
    with instance.running():
        assert next(steps) == 3


@pytest.mark.parametrize("kind", [RACE, LONG])
def test_failed_or_closed_work_is_no_longer_counted(kind):
    instance = Scheduler()

    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        instance.scheduled(fail, kind)()
    steps = counting(instance, kind)
    assert next(steps) == 1 and instance._running[kind] == 1
    steps.close()
    assert not instance._running[kind]


def test_the_app_measures_a_model_when_it_is_loaded():
    MODELS.serve(options.read_options(["--only", "--model", "mars-tiny"]))
    checkpoint = MODELS.load()
    run = racing.decode_for_visitor(checkpoint, "Hello", Request(max_new_tokens=2))
    assert run.settings.costs == checkpoint.costs
    assert all(ms > 0 for _, ms in checkpoint.costs)
