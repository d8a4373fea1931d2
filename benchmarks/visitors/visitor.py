"""A visitor: opens the page, races, thinks, races again, and now and then leaves or reloads in mid-race."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

from benchmarks.visitors.page import Layout, Page, Trouble
from benchmarks.visitors.race import Race, Wish
from mars_demo import tasks
from mars_demo.assets import read_json
from mars_demo.tasks.instructions import instructions

TAUS = (1.0, 0.95, 0.9, 0.8, 0.6)
BURST = 2.0  # seconds in which all press Run for the first time
PAUSE = (1.0, 8.0)  # seconds between two races
LEAVES, RELOADS = 0.12, 0.08  # how often a race that is not the first is left in one of these ways
PATIENCE = 900  # seconds after which a race without an end is trouble


def prompts(model: str, seed: int) -> Iterator[str]:
    """Endless prompts that suit a model, hardly one twice for the tiny ones."""
    if model.endswith("-tiny"):
        return (example.prompt for example in tasks.examples(None, "held-out", seed))
    examples = [
        entry["prompt"] for entry in read_json("prompts.json") if not entry["model"].endswith("-tiny")
    ]
    known = [*examples, *(instruction.prompt for instruction in instructions())]
    random.Random(seed).shuffle(known)
    return itertools.cycle(known)


@dataclass(frozen=True)
class Venue:
    """What all visitors share: connections to the server, its page and model, and when to stop.

    modes: that the model has, besides one token per forward. until: the moment of `time.monotonic` from
    which no race begins.
    """

    client: httpx.AsyncClient
    layout: Layout
    model: str
    modes: tuple[str, ...]
    until: float
    seed: int = 0


class Visitor:
    """One seat of the audience. Whoever leaves it comes back after a pause, as a new visit."""

    def __init__(self, venue: Venue, number: int):
        self.races: list[Race] = []
        self.visits = 0
        self.troubles: list[str] = []  # that came outside of a race
        self.venue = venue
        self._random = random.Random(f"{venue.seed}/{number}")
        self._prompts = prompts(venue.model, 1000 * venue.seed + number)
        self._page: Page | None = None

    async def arrive(self) -> None:
        """Open the page."""
        self.visits += 1
        self._page = Page(self.venue.client, self.venue.layout)
        try:
            await self._page.open()
        except (Trouble, httpx.HTTPError) as error:
            self.troubles.append(f"The page did not open: {type(error).__name__} {error}")

    async def stay(self, first: float) -> None:
        """Press Run after `first` seconds and wait for the whole race; then go on as visitors do, until no
        more races begin."""
        await asyncio.sleep(first)
        await self.race(self.wish())
        while time.monotonic() + (pause := self._random.uniform(*PAUSE)) < self.venue.until:
            await asyncio.sleep(pause)
            leaves = self._random.random()
            after = self._random.randrange(20) if leaves < LEAVES + RELOADS else None
            if not await self.race(self.wish(), after):
                await self._page.leave()
                if leaves < LEAVES:
                    await asyncio.sleep(self._random.uniform(*PAUSE))
                await self.arrive()
        await self._page.leave()

    def wish(self) -> Wish:
        """The next thing to ask for, drawn from the seed."""
        drawn = self._random
        modes = tuple(
            drawn.sample(self.venue.modes, drawn.choice((1, 1, 1, min(2, len(self.venue.modes)))))
        )
        lines = sorted(drawn.randrange(4, 60) for _ in range(drawn.choice((0, 1, 1, 2))))
        return Wish(
            next(self._prompts), modes, drawn.choice(TAUS), tuple((n, drawn.choice(TAUS)) for n in lines)
        )

    async def race(self, wish: Wish, leave_after: int | None = None) -> bool:
        """Ask for it and follow it to its end, or until so many lines have come; whether the visitor is
        still there and all is well."""
        page, race = self._page, Race(wish)
        page.put("prompt", wish.prompt)
        page.put("mode", list(wish.modes))
        page.put("tau", wish.tau)
        self.races.append(race)
        enough, moves, moving = asyncio.Event(), list(wish.moves), []

        def watch(message: dict) -> None:
            race.watch(message)
            if leave_after is not None and race.lines >= leave_after:
                enough.set()
            while moves and race.lines >= moves[0][0]:
                page.put("tau", moves.pop(0)[1])
                moving.append(asyncio.create_task(page.fire("tau", "input")))

        run = asyncio.create_task(page.fire("run", "click", watch))
        gone = asyncio.create_task(enough.wait())
        done, _ = await asyncio.wait((run, gone), timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        race.left = done == {gone}
        for task in (run, gone):
            task.cancel()
        race.trouble = None if done else f"It did not end within {PATIENCE} s."
        for task in (run, *moving):
            race.trouble = race.trouble or await _trouble_of(task)
        if done == {run}:
            race.end()
        return race.finished


async def _trouble_of(task: asyncio.Task) -> str | None:
    try:
        await task
    except (Trouble, httpx.HTTPError) as error:
        return f"{type(error).__name__}: {error}"
    except asyncio.CancelledError:
        pass
    return None
