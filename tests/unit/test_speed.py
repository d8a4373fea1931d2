"""What recording costs is measured against the same decoding without it."""

import pytest

from benchmarks.speed import recorded, unrecorded
from mars_demo.decoding.request import Request

PROMPTS = [
    "Can you show me the 7 times table up to 10?",
    "Tell me a short story about a lantern and a wizard.",
]


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("tau", [0.95, 0.5])
def test_without_a_record_the_same_forwards_accept_the_same_tokens(mars_tiny, prompt, tau):
    expected = recorded(mars_tiny, prompt, Request("mars", tau, max_new_tokens=48))
    assert unrecorded(mars_tiny, prompt, mars_tiny.largest_window, tau, 48) == expected
