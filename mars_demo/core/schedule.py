"""The schedule of a batch: a state per sequence and step, measured or derived from separate runs."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from mars_demo.core.trace import Pass

COMPUTE, WAIT, COMMIT, FREE = "compute", "wait", "commit", "free"


@dataclass
class Schedule:
    """A schedule; `steps[s][r]` is the state of row r at step s, one forward of the whole batch."""

    title: str
    rows: list[str]
    steps: list[list[str]] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)  # of derived steps, padding included


def with_ragged_cache(rows: Sequence[str], runs: Sequence[Sequence[Pass]]) -> Schedule:
    """Schedule the forwards of separate runs as a batch with a per-sequence cache: no sequence waits."""
    schedule = Schedule("Per-sequence cache", list(rows))
    for passes in zip_longest(*runs):
        schedule.steps.append([COMPUTE if step else FREE for step in passes])
        schedule.positions.append(_padded([step.positions for step in passes if step]))
    return schedule


def with_block_cache(rows: Sequence[str], runs: Sequence[Sequence[Pass]], cache_block: int) -> Schedule:
    """Schedule the forwards of separate runs as a batch with the paper's block-level cache.

    A sequence that has filled its `cache_block` positions waits until all have; then one forward commits
    the block for all. The last token must remain to predict slot 1; it and all other tokens beyond the
    block count for the next one. Until a block is committed, every forward of a sequence
    computes its tokens again.
    """
    schedule = Schedule(f"Block cache, {cache_block} positions", list(rows))
    left = [deque(passes) for passes in runs]
    ahead = [0] * len(rows)  # tokens of the current block, per sequence
    newest = [0] * len(rows)  # tokens of the last forward, which a run alone computes again too
    while unfinished := [row for row, passes in enumerate(left) if passes]:
        computing = [row for row in unfinished if ahead[row] <= cache_block]
        others = WAIT if computing else COMMIT
        schedule.steps.append([others if row in unfinished else FREE for row in range(len(rows))])
        if not computing:
            schedule.positions.append(cache_block * len(unfinished))
            ahead = [tokens - cache_block for tokens in ahead]
            continue
        sizes = []
        for row in computing:
            schedule.steps[-1][row] = COMPUTE
            step = left[row].popleft()
            sizes.append(step.positions + ahead[row] - newest[row])
            ahead[row] += step.accepted
            newest[row] = step.accepted
        schedule.positions.append(_padded(sizes))
    return schedule


def _padded(sizes: Sequence[int]) -> int:
    """Return the positions of one forward for sequences of these sizes, padded to the longest."""
    return len(sizes) * max(sizes, default=0)
