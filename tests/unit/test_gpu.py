"""Functions on ZeroGPU: results, errors, time limits, closing, and state shared with forked processes."""

import copy
import gc
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from mars_demo.ui.hosting import shared_state as shared
from mars_demo.ui.knobs import Knobs

ROOT = Path(__file__).parents[2]
LENT = """
import sys, threading, forking_spaces
sys.modules["spaces"] = forking_spaces
from mars_demo.ui.hosting.shared_state import SharedState
from mars_demo.ui.hosting.gpu import LENT, on_gpu

assert LENT

@on_gpu(lambda shared, pause: 1)
def until_stopped(shared, pause):
    number = 0
    while not shared.stopped:
        yield number
        number += 1
        while pause and not shared.stopped:
            threading.Event().wait(0.01)

shared = SharedState()
assert len(list(until_stopped(shared, False))) > 1  # ends with its second
assert not shared.stopped  # it may run again

steps = until_stopped(shared, True)
assert next(steps) == 0
steps.close()  # ends the pause
"""


@pytest.mark.full
def test_on_zerogpu_work_runs_in_a_forked_process():
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, "-c", LENT], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "1" in done.stdout


# --------------------------------------------------------------------------------------------- shared state


def test_shared_state_reaches_a_process_forked_earlier():
    here, there = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        try:
            knobs = pickle.loads(os.read(here[0], 1 << 16))
            os.write(there[1], pickle.dumps((knobs.tau, knobs.watched, knobs.stopped)))
            knobs.tau = 0.25
        finally:
            os._exit(0)
    knobs = Knobs()
    knobs.tau = 0.7
    data = pickle.dumps(knobs)
    knobs.watched, knobs.stopped = True, True  # after pickling
    os.write(here[1], data)
    assert pickle.loads(os.read(there[0], 1 << 16)) == (0.7, True, True)
    os.waitpid(child, 0)
    assert knobs.tau == 0.25


def test_shared_states_are_independent_and_free_their_memory():
    one = Knobs()
    one.tau, one.note = 0.5, ["x"]
    two = copy.deepcopy(one)
    assert (two.tau, two.note) == (0.5, ["x"]) and two.note is not one.note
    two.tau = 0.1
    assert (one.tau, two.tau, Knobs().tau) == (0.5, 0.1, 0.95)
    free = len(shared._free)
    del one, two
    gc.collect()
    assert len(shared._free) == free + 2
