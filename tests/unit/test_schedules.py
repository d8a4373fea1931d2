"""Schedules: by prompt, by place, as JSON lines, and as a picture of a replay."""

import itertools
import json
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from mars_demo.decoding.request import Request
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.serving.schedules import (
    COMMIT,
    COMPUTE,
    FREE,
    WAIT,
    Schedule,
    seated,
    with_block_cache,
    with_cursor_cache,
)
from mars_demo.views import plots, recordings

STEPS = [  # three prompts in two places
    [COMPUTE, COMPUTE, FREE],
    [COMPUTE, WAIT, FREE],
    [FREE, COMPUTE, COMPUTE],
    [FREE, FREE, COMMIT],
]


def test_a_prompt_takes_the_first_place_that_is_free():
    assert list(seated(STEPS, 2)) == [
        ([COMPUTE, COMPUTE], [0, 1]),
        ([COMPUTE, WAIT], [0, 1]),
        ([COMPUTE, COMPUTE], [2, 1]),
        ([COMMIT, FREE], [2, None]),
    ]


def letters(schedule: Schedule) -> list[str]:
    """A line per step, a letter per row: compute, wait, commit (!), free (-)."""
    short = {COMPUTE: "c", WAIT: "w", COMMIT: "!", FREE: "-"}
    return ["".join(short[state] for state in step) for step in schedule.steps]


def forwards(*counts: int, positions: Sequence[int] = ()) -> list[SimpleNamespace]:
    """Return forwards that accept so many tokens and compute so many positions, 9 if none are named."""
    pairs = zip(counts, positions or [9] * len(counts))
    return [SimpleNamespace(accepted=accepted, positions=each) for accepted, each in pairs]


def test_with_a_block_cache_rows_wait_until_all_have_filled_the_block():
    # a fills the block at once and waits for b; c ends without having filled it. Of the next block a and b
    # have one token each already, which reached over the end of the first.
    runs = [forwards(4, 1, 1), forwards(1, 1, 2, 5), forwards(2)]
    schedule = with_block_cache(["a", "b", "c"], runs, 3)
    assert letters(schedule) == ["ccc", "wc-", "wc-", "!!-", "cc-", "c--"]
    late = with_block_cache(["a", "b"], [forwards(2, 1, 1), forwards(5, 1)], 2)
    assert letters(late) == ["cc", "!!", "cw", "cw", "-!", "-c"]


def test_a_schedule_counts_the_positions_of_each_step():
    runs = [forwards(2, 1, 1, positions=[9, 6, 5]), forwards(1, 1, 1, positions=[8, 5, 5])]
    cursor = with_cursor_cache(["a", "b"], runs)
    assert cursor.positions == [18, 12, 10]
    # Nothing is committed: the second forward of a computes its 2 new tokens, the third these and 1 more.
    whole = with_block_cache(["a", "b"], runs, 99)
    assert whole.positions == [18, 12, 2 * max(5 + 2, 5 + 1)]
    # a has filled its block at once and waits for b; two rows commit 2 positions each.
    block = with_block_cache(["a", "b"], runs, 2)
    assert letters(block) == ["cc", "wc", "!!", "cc", "c-"]
    assert block.positions == [18, 5, 4, 12, 5]


def test_derived_blocks_are_like_measured_ones(mars_tiny):
    """The same prompts in a batch: about as many forwards and positions with every block size."""
    prompts = [entry["prompt"] for entry in recordings.index() if entry["id"] in recordings.BATCHED]
    for block in (8, 256):
        lines = map(json.loads, recordings.batched(block).splitlines())
        derived = [*itertools.takewhile(lambda line: "Cursor" not in line.get("title", ""), lines)][1:]
        paper = {"cache": "block", "cache_block": block, "continuous": False}
        done = decode_batch(mars_tiny, prompts, Request("mars", 0.95), size=5, **paper).finish()
        assert len(derived) == pytest.approx(done.batch.forwards, rel=0.25)
        assert sum(line["positions"] for line in derived) == pytest.approx(done.batch.positions, rel=0.25)


def test_a_replay_is_drawn_with_lines_that_differ_in_more_than_colour():
    picture = {
        "moments": [[0.1, 0, 1, 1.0], [0.2, 3, 2, 0.9]],
        "requests": [[1.2, 1.3, 1.9], [0.0, 0.1, 0.5]],
    }
    lines = plots.replays(dict.fromkeys(("τ = 1", "τ = 0.95", "controller"), picture)).data
    queues = [line for line in lines[1:] if line.showlegend is not False]
    assert len({line.line.dash for line in queues}) == len({line.marker.symbol for line in queues}) == 3
