"""Simulated visitors of the real app get their own answers."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.visitors import crowd
from benchmarks.visitors.app import serving

pytestmark = pytest.mark.full


def test_a_small_crowd_gets_its_own_answers_without_errors(mars_tiny):
    with serving("mars-tiny", {"MARS_DEMO_RACES": 1}) as app, ThreadPoolExecutor(1) as beside:
        visits = crowd.visit(app, mars_tiny, visitors=4, seconds=5.0, seed=1, browsers=1)
        measured = beside.submit(asyncio.run, visits).result()  # in this thread, a browser's loop may run
    assert measured["races"] >= 4 and measured["burst"]["visitors"] == 4
    assert measured["streams"] >= 8  # AR and another mode of each
    assert (measured["crosstalk"], measured["errors"]) == ([], [])
    [browser] = measured["browsers"]
    assert browser["races"] > 0 and browser["errors"] == []
