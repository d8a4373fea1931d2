"""Functions that run where a GPU is lent: their results, their problems, their time, and leaving them."""

import os
import subprocess
import sys
from pathlib import Path

from mars_demo.ui import gpu
from mars_demo.ui.gpu import on_gpu

ROOT = Path(__file__).parents[2]
LENT = """
import sys, time, forking_spaces
sys.modules["spaces"] = forking_spaces
import os
from mars_demo.ui.board import Board
from mars_demo.ui.gpu import LENT, on_gpu

assert LENT

@on_gpu(lambda value, fails: 5)
def plain(value, fails):
    if fails:
        raise ValueError(f"{value} cannot be.")
    return value + 1, os.getpid()

value, process = plain(1, False)
assert value == 2 and process != os.getpid()
assert plain(2, False) == (3, process)  # the same process again
try:
    plain(3, True)
except ValueError as error:
    assert str(error) == "3 cannot be."
else:
    raise AssertionError

@on_gpu(lambda board, pause: 1)
def until_stopped(board, pause):
    number = 0
    while not board.stopped:
        yield number
        number += 1
        board_stopped_at = time.monotonic() + pause
        while not board.stopped and time.monotonic() < board_stopped_at:
            time.sleep(0.01)

board, started = Board(), time.monotonic()
assert len(list(until_stopped(board, 0.1))) > 3
assert 0.9 < time.monotonic() - started < 5  # its second
assert not board.stopped  # it may run again

started, steps = time.monotonic(), until_stopped(board, 60)
assert next(steps) == 0
steps.close()  # in the middle of a pause of a minute
assert time.monotonic() - started < 5
"""


def test_where_a_gpu_is_lent_work_is_done_in_a_process_that_has_one():
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, "-c", LENT], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Stopped after 1 seconds: the GPU was lent for so long." in done.stdout


def test_anywhere_else_it_runs_here():
    def work(number):
        return number, os.getpid()

    def steps(number):
        yield number
        yield os.getpid()

    assert not gpu.LENT
    assert on_gpu(lambda number: 1)(work)(3) == (3, os.getpid())
    assert list(on_gpu(lambda number: 1)(steps)(3)) == [3, os.getpid()]


def test_more_work_asks_for_more_time_up_to_a_limit():
    assert gpu.seconds(10) < gpu.seconds(1000) < gpu.seconds(1000, pause=20) <= gpu.LONGEST
    assert gpu.seconds(10**9) == gpu.LONGEST
