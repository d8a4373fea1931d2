"""Sums with weekdays and times of day, with the steps."""

import random

from mars_demo.tasks.common import DAYS, Example, concludes, quantity
from mars_demo.tasks.skills.common import request, skill, texts

TEXT = texts("times")


def make(rng: random.Random, unseen: bool) -> Example:
    phrasing = TEXT.asks.pick(rng, unseen)
    kind = next(kind for kind in SUMS if f"{{{kind}}}" in phrasing)
    return _example(rng, phrasing, kind, SUMS[kind][0](rng))


def follow_up(rng: random.Random, example: Example, unseen: bool) -> Example:
    """Return the same kind of sum with other values, which the second request states."""
    kind, old = example.facts["kind"], example.facts["values"]
    phrasings = [ask for ask in TEXT.follow_ups.of(unseen) if any(f"{{{name}}}" in ask for name in old)]
    phrasing, stated = rng.choice(phrasings), {}
    while stated.items() <= old.items():
        drawn = SUMS[kind][0](rng)
        stated = {name: value for name, value in drawn.items() if f"{{{name}}}" in phrasing}
    return _example(rng, phrasing, kind, old | stated)


def _example(rng: random.Random, phrasing: str, kind: str, values: dict[str, str]) -> Example:
    steps, conclusion = SUMS[kind][1](**values)
    facts = {"conclusion": conclusion, "kind": kind, "values": values}
    return Example("times", request(rng, phrasing, **values), f"{steps} {conclusion}", facts)


def _clock(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02}"


def _minutes(clock: str) -> int:
    hours, minutes = clock.split(":")
    return int(hours) * 60 + int(minutes)


def _time(rng: random.Random) -> int:
    """Return a time from 7:00 to 21:55, in minutes."""
    return rng.randrange(7 * 60, 22 * 60, 5)


def _am_or_pm(rng: random.Random) -> dict[str, str]:
    half, space = rng.choice(("am", "pm")), rng.choice((" ", " ", ""))
    minute = rng.choice((f":{rng.randrange(0, 60, 5):02}", f":{rng.randrange(60):02}", ""))
    return {"am_pm": f"{rng.randint(1, 12)}{minute}{space}{half}"}


def _of_24_hours(rng: random.Random) -> dict[str, str]:
    hour, minute = rng.randrange(24), rng.choice((rng.randrange(0, 60, 5), rng.randrange(60)))
    return {"clock": f"{hour:02}:{minute:02}"}


def _start_and_length(rng: random.Random) -> dict[str, str]:
    return {"start": _clock(_time(rng)), "length": f"{rng.randrange(10, 100, 5)} minutes"}


def _two_near(rng: random.Random) -> dict[str, str]:
    first = _time(rng)
    return {"first": _clock(first), "last": _clock(first + rng.randrange(5, 65, 5))}


def _two_different(rng: random.Random) -> dict[str, str]:
    either = _time(rng)
    # Often in the same hour, where the minutes decide.
    near = either // 60 * 60 + rng.randrange(0, 60, 5)
    other = rng.choice([time for time in (near, _time(rng), _time(rng)) if time != either] or [either + 60])
    return {"either": _clock(either), "other": _clock(other)}


def _span(rng: random.Random) -> dict[str, str]:
    hours, minutes = rng.randint(1, 12), rng.choice((0, *range(5, 60, 5)))
    if hours == 1 and not minutes or rng.random() < 0.4:
        return {"span": f"{max(hours, 2)} hours"}
    return {"span": f"{quantity(hours, 'hour')}" + (f" and {minutes} minutes" if minutes else "")}


def _weekday(day: str, days: str) -> tuple[str, str]:
    start, count = DAYS.index(day), int(days.split()[0])
    later = [DAYS[(start + n) % 7] for n in range(1, count + 1)]
    steps = ", ".join(f"{day} + {n} = {name}" for n, name in enumerate(later, 1))
    return f"{steps}.", f"So {days} after {day} it is {later[-1]}."


def _to_24(am_pm: str) -> tuple[str, str]:
    time, half = am_pm[:-2].strip(), am_pm[-2:]
    hour, minute = int(time.split(":")[0]), time.partition(":")[2] or "00"
    if hour == 12:
        hour, name = (12, "noon") if half == "pm" else (0, "midnight")
        steps = f"12 {half} is {name}, so hour {hour:02}."
    elif half == "pm":
        hour, steps = hour + 12, f"pm: {hour} + 12 = {hour + 12}."
    else:
        steps = f"am: the hour stays {hour}."
    return steps, f"So {am_pm} is {hour:02}:{minute}."


def _to_12(clock: str) -> tuple[str, str]:
    hour, minute = int(clock[:2]), clock[3:]
    if hour > 12:
        steps = f"{hour} is more than 12, so pm: {hour} - 12 = {hour - 12}."
    elif hour == 12:
        steps = "Hour 12 is noon, so pm."
    else:
        steps = f"{hour} is less than 12, so am." if hour else "Hour 00 is midnight, so 12 am."
    return steps, f"So {clock} is {hour % 12 or 12}:{minute} {'pm' if hour >= 12 else 'am'}."


def _end(start: str, length: str) -> tuple[str, str]:
    time, rest = _minutes(start), int(length.split()[0])
    steps = []
    while rest:
        step = min(rest, 60 - time % 60)  # up to the next full hour
        steps.append(f"{_clock(time)} + {step} = {_clock(time + step)}.")
        time, rest = time + step, rest - step
    return " ".join(steps), f"So {length} after {start} it is {_clock(time)}."


def _between(first: str, last: str) -> tuple[str, str]:
    start, end = _minutes(first), _minutes(last)
    before, after = min(end - start, 60 - start % 60), max(0, end - (start // 60 + 1) * 60)
    steps = f"{first} + {before} = {_clock(start + before)}."
    if after:
        steps += f" {_clock(start + before)} + {after} = {last}. {before} + {after} = {before + after}."
    return steps, f"So from {first} to {last} it is {before + after} minutes."


def _earlier(either: str, other: str) -> tuple[str, str]:
    first, last = sorted((either, other), key=_minutes)
    (hour, minute), (later_hour, later_minute) = first.split(":"), last.split(":")
    steps = f"{hour} is less than {later_hour}."
    if hour == later_hour:
        steps = f"Both have hour {hour}. {minute} is less than {later_minute}."
    return steps, f"So {first} is earlier than {last}."


def _to_minutes(span: str) -> tuple[str, str]:
    hours, _, minutes = span.partition(" and ")
    count, rest = int(hours.split()[0]), int(minutes.split()[0]) if minutes else 0
    steps = f"{count} x 60 = {count * 60}."
    if rest:
        steps += f" {count * 60} + {rest} = {count * 60 + rest}."
    return steps, f"So {span} are {count * 60 + rest} minutes."


# Kinds of sums by a field of their phrasings: functions for values, and for steps and conclusion.
SUMS = {
    "days": (lambda rng: {"day": rng.choice(DAYS), "days": quantity(rng.randint(1, 7), "day")}, _weekday),
    "am_pm": (_am_or_pm, _to_24),
    "clock": (_of_24_hours, _to_12),
    "length": (_start_and_length, _end),
    "first": (_two_near, _between),
    "other": (_two_different, _earlier),
    "span": (_span, _to_minutes),
}

TASK = skill("times", "Days and times", make, concludes, follow_up)
