"""Who computes next: turns of forwards, races before long work before the background, and the queue."""

import functools
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import gradio as gr
import pytest
from greedy import check_same_passes
from web import until

from mars_demo import scheduler
from mars_demo.decoding import costs
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.scheduler import BACKGROUND, LONG, RACE, SCHEDULER, WAITING, Clock, Queue, Scheduler
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.ui import controls, models, options
from mars_demo.ui.board import Board
from mars_demo.ui.controls import in_queue

GUARD = 300  # seconds
PROMPTS = [
    "Which city is the capital of Latvia?",
    "Sort these numbers: 7, 3, 12, 1.",
    "What is 12 plus 30?",
]


# --------------------------------------------------------------------------------------------- turns


def together(works):
    """Run functions in threads of their own and return their results in order."""
    with ThreadPoolExecutor(len(works)) as threads:
        return [future.result(GUARD) for future in [threads.submit(work) for work in works]]


def until_waiting(own: Scheduler, count: int) -> None:
    """Wait until so many threads wait for a turn."""
    until(lambda: len(own._waiting) >= count)


def test_who_has_waited_longest_comes_first():
    own, order = Scheduler(), []

    def take(name):
        with own.turn(), own.turn():  # a turn within a turn is part of it
            order.append(name)
            if name == 2:
                raise RuntimeError  # passes the turn on all the same

    with ThreadPoolExecutor(5) as threads, own.turn():
        for number in range(5):
            threads.submit(take, number)
            until_waiting(own, number + 1)
    assert order == [0, 1, 2, 3, 4]
    assert not own._taken


def test_runs_and_batches_at_once_alternate_and_give_the_answers_that_they_give_alone(mars_tiny):
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
    # While all run, none is more than a few forwards ahead: those that it makes before the others wait.
    first = order[: shortest * len(PROMPTS)]
    counts = [first.count(number) for number in range(len(PROMPTS))]
    assert max(counts) - min(counts) <= shortest // 2


def test_no_clock_counts_the_wait_for_a_turn(mars_tiny, monkeypatch):
    """Another thread has a turn for an hour of the clock, of which the record shows nothing."""
    hour, late, perf_counter = 3600.0, 0.0, time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: perf_counter() + late)
    clock = Clock()

    def race():
        with clock.running():
            return decode(mars_tiny, PROMPTS[0], Request("ar", max_new_tokens=2)).finish()

    with ThreadPoolExecutor(1) as threads:
        with SCHEDULER.turn():
            racing = threads.submit(race)
            until_waiting(SCHEDULER, 1)
            late = hour
        run = racing.result(GUARD)
    assert 0 < run.seconds <= clock.seconds < hour / 2


# ------------------------------------------------------------------------------------------- classes


def counting(own: Scheduler, kind: str):
    def count():
        yield from (1, 2, 3)

    return own.scheduled(count, kind)()


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(scheduler, "PATIENCE", 0.01)
    monkeypatch.setattr(controls, "LOOK", 0.01)


@pytest.mark.parametrize("kind", [RACE, LONG])
def test_the_background_waits_while_something_runs_for_a_visitor(kind):
    own = Scheduler()
    steps = counting(own, BACKGROUND)
    assert next(steps) == 1
    with own.running(kind):
        assert [next(steps), next(steps)] == [WAITING, WAITING]
    assert list(steps) == [2, 3]


def test_a_race_waits_for_the_end_of_a_step_of_the_background():
    own, order = Scheduler(), []

    def race():
        with own.running(), own.turn():
            order.append("race")

    with ThreadPoolExecutor(1) as threads, own.step(BACKGROUND) as is_allowed:
        threads.submit(race)
        until_waiting(own, 1)
        order.append("step")
    assert is_allowed and order == ["step", "race"]


def test_long_work_lets_races_end_but_not_for_ever(monkeypatch):
    own, order, begun, ended = Scheduler(), [], threading.Event(), threading.Event()
    steps = counting(own, LONG)
    assert next(steps) == 1

    def race():
        with own.running():
            begun.set()
            ended.wait(GUARD)
            order.append("race")

    monkeypatch.setattr(scheduler, "GIVES_WAY", GUARD)
    with ThreadPoolExecutor(2) as threads:
        threads.submit(race)
        assert begun.wait(GUARD)
        step = threads.submit(lambda: order.append(next(steps)))
        assert not step.done()
        ended.set()
    assert order == ["race", 2]
    monkeypatch.setattr(scheduler, "GIVES_WAY", 0.05)
    with own.running():
        assert next(steps) == 3


@pytest.mark.parametrize("kind", [RACE, LONG])
def test_work_that_fails_or_is_closed_counts_no_longer(kind):
    own = Scheduler()

    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        own.scheduled(fail, kind)()
    begun = counting(own, kind)
    assert next(begun) == 1 and own._running[kind] == 1
    begun.close()
    assert not own._running[kind]


def test_the_app_measures_a_model_after_its_first_run(tmp_path, monkeypatch):
    monkeypatch.setenv(costs.VARIABLE, str(tmp_path))
    models.serve(options.read(["--only", "--model", "mars-tiny"]))
    with SCHEDULER.running():
        assert models.decode(models.load(), "Hello", Request(max_new_tokens=2)).settings.costs is None
        [measuring] = [thread for thread in threading.enumerate() if "_measure" in thread.name]
    measuring.join(GUARD)
    checkpoint = models.load()
    kept = costs.load(checkpoint)
    known = models.decode(checkpoint, "Hello", Request(max_new_tokens=2)).settings.costs
    assert (known is None) == (kept is None)  # None on a busy machine
    window = models.decode(checkpoint, "Hello", Request(window=3, max_new_tokens=2)).settings
    assert (window.window, window.costs) == (3, None)


# ----------------------------------------------------------------------------------------- the queue


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets, for an empty queue."""
    clock = SimpleNamespace(now=0.0, queue=Queue())
    monkeypatch.setattr(scheduler, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def visit(clock, name: str, board: Board | None = None):
    def work(name, board):
        for step in ("begun", "done"):
            yield f"{name} {step}"

    return in_queue(work, 1, clock.queue)(name, board or Board())


def numbers_in(text: str) -> list[str]:
    return re.findall(r"\d+", text)


def test_visitors_start_in_order_and_get_a_place_and_an_estimate(clock):
    first, second, third = visit(clock, "a"), visit(clock, "b"), visit(clock, "c")
    assert [next(first), next(first)] == [[gr.skip(), ""], ["a begun", gr.skip()]]
    assert numbers_in(next(second)[1]) == ["20"]
    assert numbers_in(next(third)[1]) == ["2", "40"]
    clock.now = 5.0
    assert numbers_in(next(third)[1]) == ["2", "35"]
    first.close()
    assert list(second) == [[gr.skip(), ""], ["b begun", gr.skip()], ["b done", gr.skip()]]
    assert list(third)[-1] == ["c done", gr.skip()]


def test_a_waiting_visitor_may_stop_and_leaves_the_queue(clock):
    board = Board()
    first, second, third = visit(clock, "a"), visit(clock, "b", board), visit(clock, "c")
    for steps in (first, second, third):
        next(steps)
    board.stopped = True
    assert next(second)[1] and list(second) == []
    assert numbers_in(next(third)[1]) == ["20"]


def test_the_estimate_follows_the_runs(clock):
    queue = Queue()
    with queue.ticket():
        clock.now = 100.0
    assert queue.seconds(1) == pytest.approx(20 + 0.3 * (100 - 20))


def test_the_queue_has_a_limit(clock, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_WAITING", "2")
    queue = Queue()
    full = pytest.raises(ValueError, match="2")
    with queue.ticket(), queue.ticket(), queue.ticket(), full, queue.ticket():
        pass
    with queue.ticket() as ticket:
        assert queue.ahead(ticket) == 0
