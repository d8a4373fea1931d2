"""Numbers that processes share, whenever they were forked."""

import copy
import math
import os
import pickle
import time

import pytest

from mars_demo.ui import board
from mars_demo.ui.board import Board, Number
from mars_demo.ui.controls import Knobs


class Dials(Board):
    pace = Number(1.0)


def in_a_fork(work) -> bytes:
    """Fork a process that applies `work` to the bytes it gets, and return the function that sends them."""
    here, there = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(there[1], work(os.read(here[0], 1 << 16)))
        finally:
            os._exit(0)

    def ask(data: bytes) -> bytes:
        os.write(here[1], data)
        answer = os.read(there[0], 1 << 16)
        os.waitpid(child, 0)
        return answer

    return ask


def test_a_pickle_of_a_shared_board_is_the_same_board_in_a_process_forked_before():
    def work(data: bytes) -> bytes:
        knobs = pickle.loads(data)
        seen = (knobs.tau, knobs.wait, knobs.stopped)
        knobs.tau = 0.25
        return pickle.dumps(seen)

    ask, knobs = in_a_fork(work), Knobs()
    knobs.tau = 0.7
    with knobs.shared():
        data = pickle.dumps(knobs)
        knobs.wait, knobs.stopped = 300, True  # after the pickle
        assert pickle.loads(ask(data)) == (0.7, 300, True)
        assert knobs.tau == 0.25
    assert (knobs.tau, knobs.wait, knobs.stopped) == (0.25, 300, True)


def test_boards_have_numbers_of_their_own():
    one, two = Dials(), copy.deepcopy(Dials())
    with one.shared(), two.shared():
        one.pace, two.pace = 2, 3
        assert (one.pace, two.pace, Dials().pace) == (2, 3, 1)
    assert (one.pace, two.pace) == (2, 3)
    assert not hasattr(one, "tau") and Knobs().tau == 0.95 and Board.defaults == [math.inf, False]


def test_a_board_counts_as_stopped_after_its_time():
    dials = Dials()
    assert not dials.stopped
    dials.until = time.monotonic() - 1
    assert dials.stopped and dials.is_over


def test_slots_are_freed_and_without_one_a_board_is_refused():
    for _ in range(2 * board.SLOTS):
        with Board().shared():
            pass
    boards = [Board().shared() for _ in range(board.SLOTS)]
    for one in boards:
        one.__enter__()
    with (
        pytest.raises(ValueError, match=str(board.SLOTS)),
        Board().shared(),
    ):
        pass
    for one in boards:
        one.__exit__(None, None, None)
    with Board().shared():
        pass
