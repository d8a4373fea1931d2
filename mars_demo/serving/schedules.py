"""Which row computes when in a batch: a state per row and step, measured or derived from recorded runs."""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from mars_demo.decoding.trace import Pass

COMPUTE, WAIT, COMMIT, FREE = "compute", "wait", "commit", "free"


@dataclass
class Schedule:
    """`steps[s][r]` is what row r did at step s; a step is one forward of the whole batch."""

    title: str
    rows: list[str]
    steps: list[list[str]] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)  # of measured steps
    positions: list[int] = field(default_factory=list)  # of derived steps, padding included

    def lines(self) -> Iterator[str]:
        """Yield the JSON lines of a derived schedule: a heading, then a line per step."""
        yield heading(self.title, self.rows)
        for states, positions in zip(self.steps, self.positions):
            yield step_line(states, positions=positions)


def heading(title: str, rows: Sequence[str], prompts: Sequence[str] = ()) -> str:
    """Return the line that begins a schedule. With `prompts` its rows are the places of a batch."""
    record = {"title": title, "rows": list(rows), "prompts": list(prompts)}
    return json.dumps(record, ensure_ascii=False)


def step_line(states: Sequence[str], **known) -> str:
    """Return the line of a step: the states of all rows and what else is known of it: the `positions` that
    it computed, its `ms`, the number of the prompt in each place (`prompts`)."""
    return json.dumps({"step": states} | known)


def seated(steps: Iterable[Sequence[str]], size: int) -> Iterator[tuple[list[str], list[int | None]]]:
    """Steps of prompts as steps of a batch of `size` places: the state of each place and the number of the
    prompt in it. A prompt takes the first free place, as in `batching.Batch`."""
    seats: list[int | None] = [None] * size
    for states in steps:
        seats = [None if seat is None or states[seat] == FREE else seat for seat in seats]
        for prompt, state in enumerate(states):
            if state != FREE and prompt not in seats:
                seats[seats.index(None)] = prompt
        yield [FREE if seat is None else states[seat] for seat in seats], list(seats)


def waiting(steps: Iterable[Sequence[str]], size: int) -> float:
    """Return the share of a batch's slots, over all forwards, in which a prompt waited."""
    places = [state for states, _ in seated(steps, size) for state in states]
    return places.count(WAIT) / len(places) if places else 0.0


def with_cursor_cache(rows: Sequence[str], runs: Sequence[Sequence[Pass]]) -> Schedule:
    """Schedule forwards that rows made alone side by side, each row with its own length in the cache: no
    row waits."""
    schedule = Schedule("Cursor cache", list(rows))
    for step in zip_longest(*runs):
        schedule.steps.append([FREE if one is None else COMPUTE for one in step])
        schedule.positions.append(_padded([one.positions for one in step if one is not None]))
    return schedule


def with_block_cache(rows: Sequence[str], runs: Sequence[Sequence[Pass]], cache_block: int) -> Schedule:
    """Schedule the same forwards with the paper's block-level cache: a row that has filled its
    `cache_block` positions waits until all have; then one forward commits the block for all rows.

    A forward's tokens that reach over the end of a block count for the next one. Until a block is
    committed, every forward of a row computes again what the row has of it.
    """
    schedule = Schedule(f"Block cache, {cache_block} positions", list(rows))
    left = [deque(passes) for passes in runs]
    ahead = [0] * len(rows)  # tokens of the current block that a row has
    newest = [0] * len(rows)  # those of its last forward, which the next one computed alone too
    while any(left):
        step, sizes = [], []
        for row, passes in enumerate(left):
            if not passes:
                step.append(FREE)
            elif ahead[row] >= cache_block:
                step.append(WAIT)
            else:
                one = passes.popleft()
                sizes.append(one.positions + max(0, ahead[row] - newest[row]))
                ahead[row] += one.accepted
                newest[row] = one.accepted
                step.append(COMPUTE)
        schedule.steps.append(step)
        schedule.positions.append(_padded(sizes))
        unfinished = [row for row, passes in enumerate(left) if passes]
        if unfinished and all(ahead[row] >= cache_block for row in unfinished):
            schedule.steps.append([COMMIT if row in unfinished else FREE for row in range(len(rows))])
            schedule.positions.append(cache_block * len(unfinished))
            ahead = [max(0, tokens - cache_block) for tokens in ahead]
    return schedule


def _padded(sizes: Sequence[int]) -> int:
    """Return the positions of one forward for rows of these sizes, padded to the longest."""
    return len(sizes) * max(sizes, default=0)
