"""Schedules as JSON lines, and those that are derived from recorded runs."""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from mars_demo.core.schedule import COMMIT, COMPUTE, FREE, WAIT, Schedule
from mars_demo.core.trace import Pass


def lines(schedule: Schedule) -> Iterator[str]:
    """Yield the JSON lines of a derived schedule: a heading, then a line per step."""
    yield heading(schedule.title, schedule.rows)
    for states, positions in zip(schedule.steps, schedule.positions):
        yield step_line(states, positions=positions)


def heading(title: str, rows: Sequence[str], prompts: Sequence[str] = ()) -> str:
    """Return the first line of a schedule; with `prompts`, its rows are batch slots."""
    record = {"title": title, "rows": list(rows), "prompts": list(prompts)}
    return json.dumps(record, ensure_ascii=False)


def step_line(states: Sequence[str], **measured) -> str:
    """Return the line of a step: the states of all rows, and further fields.

    These are the computed `positions`, the time in `ms`, and the number of the prompt in each batch slot
    (`prompts`).
    """
    return json.dumps({"step": states} | measured)


def seated(steps: Iterable[Sequence[str]], size: int) -> Iterator[tuple[list[str], list[int | None]]]:
    """Yield, for each step, the state of each of `size` batch slots and the number of the prompt in it.

    steps: the states of all prompts. A prompt takes the first free slot.
    """
    slots: list[int | None] = [None] * size
    for states in steps:
        slots = [None if prompt is None or states[prompt] == FREE else prompt for prompt in slots]
        for prompt, state in enumerate(states):
            if state != FREE and prompt not in slots:
                slots[slots.index(None)] = prompt
        yield [FREE if prompt is None else states[prompt] for prompt in slots], list(slots)


def waiting(steps: Iterable[Sequence[str]], size: int) -> float:
    """Return the share of batch slots, over all forwards, in which a sequence waited."""
    slots = [state for states, _ in seated(steps, size) for state in states]
    return slots.count(WAIT) / len(slots) if slots else 0.0


def with_ragged_cache(rows: Sequence[str], runs: Sequence[Sequence[Pass]]) -> Schedule:
    """Schedule the forwards of separate runs as a batch with a per-sequence cache: no sequence waits."""
    schedule = Schedule("Per-sequence cache", list(rows))
    for step in zip_longest(*runs):
        schedule.steps.append([FREE if one is None else COMPUTE for one in step])
        schedule.positions.append(_padded([one.positions for one in step if one is not None]))
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
            one = left[row].popleft()
            sizes.append(one.positions + ahead[row] - newest[row])
            ahead[row] += one.accepted
            newest[row] = one.accepted
        schedule.positions.append(_padded(sizes))
    return schedule


def _padded(sizes: Sequence[int]) -> int:
    """Return the positions of one forward for sequences of these sizes, padded to the longest."""
    return len(sizes) * max(sizes, default=0)
