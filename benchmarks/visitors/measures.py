"""What the races of a crowd say about the server, and how its memory goes."""

from __future__ import annotations

import statistics
from bisect import bisect_left, insort
from collections.abc import Sequence

from benchmarks.visitors.race import Race
from mars_demo.evaluation.load_test import percentiles

SETTLED = 300  # seconds after which memory is compared with that at the end
AROUND = 10  # samples that a statement about memory is the median of


def measured(races: Sequence[Race], begun: float, over: float) -> dict:
    """The figures of a crowd that was watched from `begun` to `over`, moments of `time.monotonic`.

    Seconds from the press of Run to the first token of any lane and to the end; milliseconds from token to
    token of each lane; tokens of all visitors per second.
    """
    per_token = [
        1000 * (lane.last - lane.first) / (lane.tokens - len(lane.ids[0]))
        for race in races
        for lane in race.lanes.values()
        if len(lane.ids) > 1
    ]
    return {
        "races": len(races),
        "finished": sum(race.finished for race in races),
        "left": sum(race.left for race in races),
        "first_token": percentiles_of([race.first - race.pressed for race in races if race.first]),
        "ms_per_token": percentiles_of(per_token),
        "race_seconds": percentiles_of([race.ended - race.pressed for race in races if race.finished]),
        "tokens_per_second": sum(race.tokens for race in races) / (over - begun),
        "seconds": over - begun,
    }


def burst(races: Sequence[Race]) -> dict:
    """The first race of each visitor, which they begin almost at once: until when all have their first
    token and their whole answer, counted from the first press; who overtook whom."""
    begun = min(race.pressed for race in races)
    pressed = sorted((race for race in races if race.first), key=lambda race: race.pressed)
    ended = [race.ended for race in races if race.finished]
    return {
        "visitors": len(races),
        "first_token": percentiles_of([race.first - race.pressed for race in pressed]),
        "all_first_tokens": max((race.first - begun for race in pressed), default=None),
        "all_answers": max((moment - begun for moment in ended), default=None),
        "mean_race_seconds": statistics.mean([r.ended - r.pressed for r in races if r.finished] or [0.0]),
        "tokens_per_second": sum(race.tokens for race in races) / (max([*ended, begun + 1e-3]) - begun),
        "overtaken": max(overtaken([race.first for race in pressed]), default=0),
    }


def overtaken(firsts: Sequence[float]) -> list[int]:
    """By how many of those after it in the row each one was overtaken."""
    seen: list[float] = []
    counts = []
    for moment in reversed(firsts):
        counts.append(bisect_left(seen, moment))
        insort(seen, moment)
    return counts[::-1]


def percentiles_of(values: Sequence[float]) -> dict[str, float] | None:
    """As `load_test.percentiles`: p99 from 200 values on; None without any."""
    return percentiles(values) if values else None


def memory(samples: Sequence[tuple[float, float]]) -> dict:
    """What samples of (seconds, MiB) say: at the start, once it has settled, at the most and at the end.

    `growth` is the end's part above what had settled, None for a run that was too short to settle.
    """
    after = [mib for seconds, mib in samples if seconds >= SETTLED]
    settled = statistics.median(after[:AROUND]) if len(after) > AROUND else None
    end = statistics.median([mib for _, mib in samples][-AROUND:])
    return {
        "start": samples[0][1],
        "settled": settled,
        "most": max(mib for _, mib in samples),
        "end": end,
        "growth": None if settled is None else end / settled - 1,
    }
