"""Runs that go on at once take turns forward by forward, in a fair order, each on its own clock."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from greedy import check_same_passes

from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.turns import TURNS, Clock, Turns
from mars_demo.serving.decode_batch import decode_batch

PROMPTS = [
    "Which city is the capital of Latvia?",
    "Sort these numbers: 7, 3, 12, 1.",
    "What is 12 plus 30?",
]


HANG_GUARD = 300  # seconds


def together(works):
    """Run functions in threads of their own and return their results in order."""
    with ThreadPoolExecutor(len(works)) as threads:
        return [future.result(HANG_GUARD) for future in [threads.submit(work) for work in works]]


def until_waiting(turns: Turns, count: int) -> None:
    """Wait until so many threads wait for a turn."""
    guard = threading.Event()
    for _ in range(HANG_GUARD * 200):
        if len(turns._waiting) >= count:
            return
        guard.wait(0.005)
    pytest.fail("nobody waits for a turn")


def test_who_has_waited_longest_comes_first():
    turns, order = Turns(), []

    def take(name):
        with turns.turn():
            order.append(name)

    with ThreadPoolExecutor(5) as threads, turns.turn():
        for number in range(5):
            threads.submit(take, number)
            until_waiting(turns, number + 1)
    assert order == [0, 1, 2, 3, 4]
    assert not turns._taken


def test_a_turn_within_a_turn_is_part_of_it():
    turns = Turns()
    with turns.turn(), turns.turn():
        assert turns._taken
    assert not turns._taken


def test_a_fault_passes_the_turn_on():
    turns = Turns()
    with pytest.raises(RuntimeError), turns.turn():
        raise RuntimeError
    with turns.turn():
        pass


def test_runs_at_once_alternate_and_give_the_answers_that_they_give_alone(mars_tiny):
    request = Request("mars", 0.8, max_new_tokens=40)
    alone = [decode(mars_tiny, prompt, request).finish() for prompt in PROMPTS]
    order, ready = [], threading.Barrier(len(PROMPTS))

    def race(number):
        run = decode(mars_tiny, PROMPTS[number], request)
        ready.wait(HANG_GUARD)
        for _ in run:
            order.append(number)
        return run

    found = together([lambda n=n: race(n) for n in range(len(PROMPTS))])
    for run, expected in zip(found, alone):
        check_same_passes(run, expected)
    shortest = min(run.forwards for run in found)
    # While all run, none is more than a few forwards ahead: those that it makes before the others wait.
    first = order[: shortest * len(PROMPTS)]
    counts = [first.count(number) for number in range(len(PROMPTS))]
    assert max(counts) - min(counts) <= shortest // 2


def test_batches_and_runs_take_turns_too(mars_tiny):
    request = Request("mars", 0.8, max_new_tokens=24)
    alone = [decode(mars_tiny, prompt, request).finish() for prompt in PROMPTS]
    batch, run = together(
        [
            lambda: decode_batch(mars_tiny, PROMPTS, request, size=3).finish(),
            lambda: decode(mars_tiny, PROMPTS[0], request).finish(),
        ]
    )
    for row, expected in zip([*batch.runs, run], [*alone, alone[0]]):
        check_same_passes(row, expected)


def test_no_clock_counts_the_wait_for_a_turn(mars_tiny, monkeypatch):
    """While another thread has a turn for an hour of the clock, a run waits, and its record does not show
    that."""
    hour, late, perf_counter = 3600.0, 0.0, time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: perf_counter() + late)
    clock = Clock()

    def race():
        with clock.running():
            return decode(mars_tiny, PROMPTS[0], Request("ar", max_new_tokens=2)).finish()

    with ThreadPoolExecutor(1) as threads:
        with TURNS.turn():
            racing = threads.submit(race)
            until_waiting(TURNS, 1)
            late = hour
        run = racing.result(HANG_GUARD)
    assert 0 < run.seconds <= clock.seconds < hour / 2
