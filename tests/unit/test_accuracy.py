"""Accuracy against speed: which settings are swept, and what a row says."""

from dataclasses import replace

import pytest

from mars_demo import tasks
from mars_demo.decoding.acceptance import CRITERIA
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.evaluation.accuracy import MAX_NEW_TOKENS, evaluate
from mars_demo.modes import MODES

TAUS = (1.0, 0.5)


@pytest.mark.parametrize("mode", [name for name, mode in MODES.items() if not mode.needs_draft])
def test_every_mode_that_has_a_tau_is_swept_and_no_other(mars_tiny, mode):
    own = "mars" in MODES[mode].objectives
    checkpoint = mars_tiny if own else replace(mars_tiny, objective=MODES[mode].objectives[0])
    rows = list(evaluate(checkpoint, Request(mode), TAUS, ["units"], limit=1))
    assert [row.tau for row in rows] == (list(TAUS) if MODES[mode].uses_tau else [None])
    [example] = tasks.held_out("units", 1)
    for row in rows:
        request = Request(mode, 0.95 if row.tau is None else row.tau, max_new_tokens=MAX_NEW_TOKENS)
        run = decode(checkpoint, example.prompt, request).finish()
        assert (row.tokens, row.forwards) == (run.tokens, run.forwards)


def test_the_criterion_of_the_request_decides(mars_tiny):
    examples = tasks.held_out("notes", 2)
    found = {}
    for criterion in CRITERIA:
        [row] = evaluate(mars_tiny, Request("mars", criterion=criterion), [0.7], ["notes"], limit=2)
        request = Request("mars", 0.7, criterion, max_new_tokens=MAX_NEW_TOKENS)
        runs = [decode(mars_tiny, example.prompt, request).finish() for example in examples]
        assert row.forwards == sum(run.forwards for run in runs)
        found[criterion] = row.forwards
    # Neither score of a greedy choice is above its probability.
    assert found["probability"] < min(found["entropy"], found["margin"])
