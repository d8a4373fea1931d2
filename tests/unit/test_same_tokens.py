"""The tokens of every mode for the recorded prompts are those stored when they were first right."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from greedy import check_passes

from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.modes import MODES
from mars_demo.views import recordings

STORED = json.loads(Path(__file__).with_name("same_tokens.json").read_text("utf-8"))
PROMPTS = {entry["id"]: entry["prompt"] for entry in recordings.index() if entry["model"] == "mars-tiny"}
WAYS = {
    "ar": {"mode": "ar"},
    "mars 0.95": {"mode": "mars", "tau": 0.95},
    "mars 0.5": {"mode": "mars", "tau": 0.5},
    "mars 0.9, window 5": {"mode": "mars", "tau": 0.9, "window": 5},
    "lossless, linear": {"mode": "lossless", "linear": True},
    "lossless, grouped": {"mode": "lossless", "linear": False},
    "jacobi": {"mode": "jacobi"},
    "block-diffusion 0.9": {"mode": "block-diffusion", "tau": 0.9},
    "speculative 1": {"mode": "speculative", "tau": 1.0},
    "speculative 0.9": {"mode": "speculative", "tau": 0.9},
}


def test_every_mode_is_stored_for_every_recorded_prompt():
    assert {way["mode"] for way in WAYS.values()} == set(MODES)
    assert STORED.keys() == PROMPTS.keys()
    assert all(found.keys() == WAYS.keys() for found in STORED.values())


@pytest.mark.parametrize("name", WAYS)
def test_the_tokens_are_the_stored_ones(mars_tiny, ar_tiny, name):
    """mars-tiny was not trained for block diffusion; what it makes of it is stored all the same."""
    mode = MODES[WAYS[name]["mode"]]
    own = "mars" in mode.objectives
    checkpoint = mars_tiny if own else replace(mars_tiny, objective=mode.objectives[0])
    request = Request(**WAYS[name], draft=ar_tiny if mode.needs_draft else None, max_new_tokens=96)
    for id, prompt in PROMPTS.items():
        run = decode(checkpoint, prompt, request).finish()
        tokens, counts = STORED[id][name]["tokens"], STORED[id][name]["accepted"]
        ends = list(itertools.accumulate(counts))
        check_passes(
            run.passes,
            [(tokens[end - count : end], count) for end, count in zip(ends, counts)],
        )
