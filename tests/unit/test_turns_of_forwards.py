"""Runs that go on at once take turns forward by forward, in a fair order, each on its own clock."""

import threading
import time

from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.turns import TURNS, Clock, Turns
from mars_demo.serving.decode_batch import decode_batch

PROMPTS = [
    "Which city is the capital of Latvia?",
    "Sort these numbers: 7, 3, 12, 1.",
    "What is 12 plus 30?",
]


def together(works):
    """Run functions in threads of their own; their results in order."""
    found = [None] * len(works)

    def keep(place, work):
        found[place] = work()

    threads = [threading.Thread(target=keep, args=pair) for pair in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def test_who_has_waited_longest_comes_first():
    turns, order, gate = Turns(), [], threading.Event()

    def take(name):
        with turns.turn():
            order.append(name)

    def hold():
        with turns.turn():
            gate.wait(60)

    threads = [threading.Thread(target=hold)]
    threads[0].start()
    while not turns._taken:
        pass
    for number in range(5):
        threads.append(threading.Thread(target=take, args=[number]))
        threads[-1].start()
        while len(turns._waiting) <= number:  # it stands in line
            pass
    gate.set()
    for thread in threads:
        thread.join(60)
    assert order == [0, 1, 2, 3, 4]
    assert not turns._taken


def test_a_turn_within_a_turn_is_part_of_it():
    turns = Turns()
    with turns.turn(), turns.turn():
        assert turns._taken
    assert not turns._taken


def test_a_fault_passes_the_turn_on():
    turns = Turns()
    try:
        with turns.turn():
            raise RuntimeError
    except RuntimeError:
        pass
    with turns.turn():
        pass


def test_runs_at_once_alternate_and_give_the_answers_that_they_give_alone(mars_tiny):
    request = Request("mars", 0.8, max_new_tokens=40)
    alone = [decode(mars_tiny, prompt, request).finish().token_ids for prompt in PROMPTS]
    order, ready = [], threading.Barrier(len(PROMPTS))

    def race(number):
        run = decode(mars_tiny, PROMPTS[number], request)
        ready.wait(60)
        for _ in run:
            order.append(number)
        return run

    found = together([lambda n=n: race(n) for n in range(len(PROMPTS))])
    assert [run.token_ids for run in found] == alone
    shortest = min(run.forwards for run in found)
    # While all run, none is more than a few forwards ahead: those that it makes before the others wait.
    first = order[: shortest * len(PROMPTS)]
    counts = [first.count(number) for number in range(len(PROMPTS))]
    assert max(counts) - min(counts) <= shortest // 2


def test_batches_and_runs_take_turns_too(mars_tiny):
    request = Request("mars", 0.8, max_new_tokens=24)
    alone = [run.token_ids for run in decode_batch(mars_tiny, PROMPTS, request, size=3).finish().runs]
    one = decode(mars_tiny, PROMPTS[0], request).finish().token_ids
    batch, run = together(
        [
            lambda: decode_batch(mars_tiny, PROMPTS, request, size=3).finish(),
            lambda: decode(mars_tiny, PROMPTS[0], request).finish(),
        ]
    )
    assert [row.token_ids for row in batch.runs] == alone
    assert run.token_ids == one


def test_no_clock_counts_the_wait_for_a_turn(mars_tiny):
    """While somebody has a turn for long, a run waits, and its record does not show it."""
    begun, held = threading.Event(), 0.5

    def hold():
        with TURNS.turn():
            begun.set()
            time.sleep(held)

    decode(mars_tiny, PROMPTS[0], Request("ar", max_new_tokens=2)).finish()  # warm
    clock = Clock()
    holder = threading.Thread(target=hold)
    holder.start()
    begun.wait(60)
    started = time.perf_counter()
    with clock.running():
        run = decode(mars_tiny, PROMPTS[0], Request("ar", max_new_tokens=2)).finish()
    took = time.perf_counter() - started
    holder.join(60)
    assert took > held * 0.9
    assert run.seconds < took - held * 0.8
    assert clock.seconds < took - held * 0.8
