"""Which row computes when in a batch: a state per row and step, measured or derived from recorded runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

COMPUTE, WAIT, COMMIT, FREE = "compute", "wait", "commit", "free"


@dataclass
class Schedule:
    """`steps[s][r]` is what row r did at step s; a step is one forward of the whole batch.

    `ms` are the steps' wall-clock milliseconds, where they were measured; `positions` what each step
    computes, padding included, where it is known.
    """

    title: str
    rows: list[str]
    steps: list[list[str]] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)

    def share(self, state: str) -> float:
        """Return the share of rows, over all forwards, that are in this state."""
        states = [found for step in self.steps for found in step]
        return states.count(state) / len(states) if states else 0.0

    def lines(self) -> Iterator[str]:
        """Yield its JSON lines: a heading, then a line per step."""
        yield heading(self.title, self.rows)
        for step, states in enumerate(self.steps):
            known = {"positions": self.positions[step]} if self.positions else {}
            yield step_line(states, **known)


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


def with_cursor_cache(
    rows: Sequence[str], accepted: Sequence[Sequence[int]], positions: Sequence[Sequence[int]] = ()
) -> Schedule:
    """Runs side by side, each row with its own length in the cache: no row waits.

    accepted: for each row the tokens that each of its forwards accepted when it ran alone.
    positions: for each row what each of its forwards computed then. A step pads its rows to the longest.
    """
    schedule = Schedule("Cursor cache", list(rows))
    for step in range(max(map(len, accepted), default=0)):
        schedule.steps.append([COMPUTE if step < len(counts) else FREE for counts in accepted])
        if positions:
            schedule.positions.append(_padded([sizes[step] for sizes in positions if step < len(sizes)]))
    return schedule


def with_block_cache(
    rows: Sequence[str],
    accepted: Sequence[Sequence[int]],
    cache_block: int,
    positions: Sequence[Sequence[int]] = (),
) -> Schedule:
    """Return the same runs with the paper's block-level cache: a row that has filled its `cache_block`
    positions waits until all have; then one forward commits the block for all rows.

    A forward's tokens that reach over the end of a block count for the next one. Until a block is
    committed, every forward of a row computes again what the row has of it.
    """
    schedule = Schedule(f"Block cache, {cache_block} positions", list(rows))
    ahead = [0] * len(rows)  # tokens of the current block that a row has
    at = [0] * len(rows)
    while any(i < len(counts) for i, counts in zip(at, accepted)):
        step, sizes = [], []
        for row, counts in enumerate(accepted):
            if at[row] >= len(counts):
                step.append(FREE)
            elif ahead[row] >= cache_block:
                step.append(WAIT)
            else:
                if positions:  # alone it computed its newest tokens, not those before them
                    newest = counts[at[row] - 1] if at[row] else 0
                    sizes.append(positions[row][at[row]] + max(0, ahead[row] - newest))
                ahead[row] += counts[at[row]]
                at[row] += 1
                step.append(COMPUTE)
        schedule.steps.append(step)
        schedule.positions += [_padded(sizes)] if positions else []
        unfinished = [row for row, counts in enumerate(accepted) if at[row] < len(counts)]
        if unfinished and all(ahead[row] >= cache_block for row in unfinished):
            schedule.steps.append([COMMIT if row in unfinished else FREE for row in range(len(rows))])
            schedule.positions += [cache_block * len(unfinished)] if positions else []
            ahead = [max(0, tokens - cache_block) for tokens in ahead]
    return schedule


def _padded(sizes: Sequence[int]) -> int:
    """Return the positions of one forward for rows of these sizes, padded to the longest."""
    return len(sizes) * max(sizes, default=0)
