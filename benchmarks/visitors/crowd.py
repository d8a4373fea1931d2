"""Visitors of one app at once, some of them with real browsers, and what they found."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Sequence
from dataclasses import replace

import httpx

from benchmarks.visitors import browser, crosstalk, measures
from benchmarks.visitors.app import App
from benchmarks.visitors.page import Layout
from benchmarks.visitors.visitor import BURST, Venue, Visitor
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.modes import RACED

TOLD = 5.0  # seconds between two lines about how it goes
PATIENT = httpx.Timeout(120.0)
# Idle ones are closed here before the server closes them, after 5 s: a request could meet that moment.
CONNECTIONS = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=1.0)


async def visit(
    app: App, checkpoint: Checkpoint, visitors: int, seconds: float, seed: int = 0, browsers: int = 0
) -> dict:
    """Let visitors arrive, press Run within `visitor.BURST` seconds, and race on for `seconds`; `browsers`
    real ones come in addition. Every stream is checked afterwards, when nobody waits for the processor.

    Returns: the figures, as a row of a file of results.
    """
    async with httpx.AsyncClient(base_url=app.address, timeout=PATIENT, limits=CONNECTIONS) as client:
        modes = tuple(mode.name for mode in RACED if mode.name in checkpoint.modes)
        venue = Venue(client, await Layout.read(client), checkpoint.name, modes, 0.0, seed)
        await _warm(venue)
        async with browser.pages(app.address, browsers) as real:
            crowd = [Visitor(venue, number) for number in range(visitors)]
            await asyncio.gather(*(one.arrive() for one in crowd))
            tell(f"all {visitors} have the page, process {app.process.pid}")
            begun, busy = time.monotonic(), app.busy()
            venue = replace(venue, until=begun + seconds)
            drawn = random.Random(seed)
            for one in crowd:
                one.venue = venue
            staying = [one.stay(drawn.uniform(0, BURST)) for one in crowd]
            racing = [one.race_on(venue.until) for one in real]
            samples = await _watched(app, crowd, [*staying, *racing])
            over, busy = time.monotonic(), app.busy() - busy
    races = [race for one in crowd for race in one.races]
    row = {"visitors": visitors, **measures.measured(races, begun, over)}
    row["burst"] = measures.burst([one.races[0] for one in crowd])
    row["memory"] = measures.memory(samples)
    row["busy"] = busy / (over - begun)  # processors that the app kept busy
    row["visits"] = sum(one.visits for one in crowd)
    row["browsers"] = [one.found() for one in real]
    return row | _checked(crowd, checkpoint) | {"errors": _errors(app, crowd)}


async def _warm(venue: Venue) -> None:
    """One race, for which the model is loaded."""
    first = Visitor(venue, -1)
    await first.arrive()
    await first.stay(0)


async def _watched(
    app: App, crowd: Sequence[Visitor], staying: list[Awaitable]
) -> list[tuple[float, float]]:
    """Wait for all of them; samples of (seconds, MiB) of the app's memory, one per second."""
    begun, told, samples = time.monotonic(), 0.0, [(0.0, app.memory())]
    everybody = asyncio.gather(*staying)
    while not everybody.done():
        await asyncio.wait([everybody], timeout=1.0)
        now = time.monotonic() - begun
        samples.append((now, app.memory()))
        if now - told >= TOLD:
            told = now
            tell(f"{now:4.0f} s  {_state(crowd)}  {samples[-1][1]:.0f} MiB")
    await everybody
    return samples


def _state(crowd: Sequence[Visitor]) -> str:
    races = [race for one in crowd for race in one.races]
    waiting = sum(race.is_waiting for race in races)
    finished = sum(race.finished for race in races)
    trouble = sum(race.trouble is not None for race in races)
    return f"{len(races)} races, {finished} finished, {waiting} without a token, {trouble} in trouble"


def _checked(crowd: Sequence[Visitor], checkpoint: Checkpoint) -> dict:
    """Every stream against the answer that it has alone."""
    found, told, runs = crosstalk.Found(), time.monotonic(), set()
    races = [race for one in crowd for race in one.races]
    for number, race in enumerate(races):
        found.add(crosstalk.check(race, checkpoint))
        for lane in race.lanes.values():
            if lane.settings["run"] in runs:
                found.complaints.append(f"The run {lane.settings['run']} came to two visitors.")
            runs.add(lane.settings["run"])
        if time.monotonic() - told >= TOLD:
            told = time.monotonic()
            tell(f"checked {number + 1} of {len(races)} races")
    return {"streams": found.streams, "ties": found.ties, "crosstalk": found.complaints}


def _errors(app: App, crowd: Sequence[Visitor]) -> list[str]:
    """What visitors met, and what the app wrote on standard error."""
    met = [trouble for one in crowd for trouble in one.troubles]
    met += [race.trouble for one in crowd for race in one.races if race.trouble]
    return [*met, *(f"traceback: {line}" for line in app.tracebacks())]


def tell(text: str) -> None:
    """A line on standard error, while it runs."""
    print(text, file=sys.stderr, flush=True)
